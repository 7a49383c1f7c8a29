"""Specs of sources, sinks and timestamp assigners."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any

from penstock.graph.operator_specs.base import SHOWN_IF_SET, OperatorSpec, OutputTimestamps


@dataclass(frozen=True, slots=True)
class SourceSpec(OperatorSpec):
    """Reads splits; assigns timestamps and watermarks per split."""

    operator = "penstock.runtime.operators.connectors.source:SourceOperator"
    preloaded = True
    checks_output = False  # connectors create values of their type

    source: Any  # penstock.connectors.base.source.Source
    watermark_strategy: Any  # penstock.common.watermark_strategy.WatermarkStrategy
    # The side output for malformed records, as DeadLetters; None: the job fails.
    error_tag: str | None = field(default=None, metadata=SHOWN_IF_SET)
    # The SQL table that it reads: then errors name its options instead of methods.
    table: str | None = field(default=None, metadata=SHOWN_IF_SET)

    def with_error_tag(self, tag: str) -> OperatorSpec:
        """Return the spec with this tag."""
        return dataclasses.replace(self, error_tag=tag)

    @property
    def reads_from(self) -> Any:
        """The source."""
        return self.source

    @property
    def output_timestamps(self) -> OutputTimestamps:
        """Those that the strategy assigns, or those that the source may provide.

        A source declares that its records never have timestamps with an attribute `carries_timestamps = False`. A strategy
        that emits watermarks overrides that.
        """
        strategy = self.watermark_strategy
        if strategy.timestamp_assigner is not None:
            return OutputTimestamps.OWN
        if strategy.emits_watermarks or getattr(self.source, "carries_timestamps", True):
            return OutputTimestamps.SOME
        return OutputTimestamps.NONE


@dataclass(frozen=True, slots=True)
class SinkSpec(OperatorSpec):
    """Writes records; pre-commits at the barrier."""

    operator = "penstock.runtime.operators.connectors.sink:SinkOperator"
    preloaded = True
    checks_output = False
    operator_states = ("writers",)

    sink: Any  # penstock.connectors.base.sink.Sink

    @property
    def writes_to(self) -> Any:
        """The sink."""
        return self.sink


@dataclass(frozen=True, slots=True)
class TimestampsAndWatermarksSpec(OperatorSpec):
    """Assigns timestamps and emits watermarks, one generator per subtask."""

    operator = "penstock.runtime.operators.connectors.timestamps:TimestampsAndWatermarksOperator"
    preloaded = True
    checks_output = False

    watermark_strategy: Any

    @property
    def output_timestamps(self) -> OutputTimestamps:
        """Those that the strategy assigns. Without a timestamp assigner, records keep theirs, if any."""
        if self.watermark_strategy.timestamp_assigner is not None:
            return OutputTimestamps.OWN
        return OutputTimestamps.SOME
