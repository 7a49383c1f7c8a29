"""The end of a chain: hands records to a SinkWriter and pre-commits at the barrier."""

from __future__ import annotations

from typing import Any

from penstock.connectors.sink import SinkWriter, WriterContext
from penstock.errors import PenstockError
from penstock.runtime.operators.base import OperatorContext, StreamOperator
from penstock.runtime.records import MIN_WATERMARK, Batch
from penstock.runtime.state.operator_state import WRITERS


class SinkOperator(StreamOperator):
    """Creates a writer per epoch, on the first record.

    What the last writer left stays in the operator's state until a writer takes it up, over any number of epochs without
    records. A subtask that is restored from several former ones merges what their writers left, at once: then it has one
    state, or none.
    """

    def open(self, context: OperatorContext) -> None:
        """Start the first epoch."""
        super().open(context)
        self._writer: SinkWriter | None = None
        self._watermark = MIN_WATERMARK
        self._sent = context.runtime_context.get_metrics_group().counter("numRecordsSend")
        self._merge_states(context.operator_state.get(WRITERS, []))

    def _merge_states(self, states: list[Any]) -> None:
        if len(states) > 1:
            try:
                self._keep(self.spec.sink.merge_writer_states(list(states)))
            except PenstockError:
                raise
            except Exception as error:
                raise self.guard(error) from error

    def _keep(self, state: Any) -> None:
        self.context.operator_state.put(WRITERS, [] if state is None else [state])

    def open_epoch(self, context: OperatorContext) -> None:
        """Start the next epoch."""
        super().open_epoch(context)
        self._writer = None

    def _create_writer(self) -> SinkWriter:
        context = self.context
        states = context.operator_state.get(WRITERS)
        writer: SinkWriter = self.spec.sink.create_writer(
            WriterContext(
                job_id=context.extras["job_id"],
                operator_id=context.operator_id,
                subtask=context.subtask,
                parallelism=context.parallelism,
                epoch=context.epoch,
                attempt=context.extras["attempt"],
                staging=context.extras["staging"],
            ),
            states[0] if states else None,
        )
        return writer

    def process(self, batch: Batch, input_index: int = 0) -> None:
        """Write the records."""
        try:
            if self._writer is None:
                self._writer = self._create_writer()
            self._writer.write(batch.values, batch.timestamps, self._watermark)
            self._sent.inc(len(batch.values))
        except PenstockError:
            raise
        except Exception as error:
            raise self.guard(error) from error

    def process_watermark(self, watermark: int) -> None:
        """Remember the watermark for the writer."""
        self._watermark = watermark

    def process_status(self, idle: bool) -> None:
        """Nothing follows a sink."""

    def barrier(self) -> list[Any]:
        """Pre-commit."""
        writer = self._writer
        if writer is None:
            return []
        try:
            committables = writer.prepare_commit()
            self._keep(writer.snapshot())
            writer.close()
        except PenstockError:
            raise
        except Exception as error:
            raise self.guard(error) from error
        self._writer = None
        return committables

    def close(self) -> None:
        """Give up what was not pre-committed."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None
