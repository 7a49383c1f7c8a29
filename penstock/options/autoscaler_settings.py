"""The autoscaler's options as one checked value."""

from __future__ import annotations

from dataclasses import dataclass

from penstock import options
from penstock.errors import ConfigurationError
from penstock.options.config_options import ConfigOption
from penstock.options.configuration import Configuration

_BELOW_TARGET = 0.3


@dataclass(frozen=True, slots=True)
class AutoscalerSettings:
    """How the autoscaler decides; the fields are the options `job.autoscaler.*` of nearly the same names.

    With `applies` False decisions are only logged. Utilizations are parts of the capacity: above `max_utilization` a job is
    scaled up, below `min_utilization` it may be scaled down, and either change aims at `target`.
    """

    enabled: bool = False
    applies: bool = True
    min_parallelism: int = 1
    max_parallelism: int = 200
    target: float = 0.7
    max_utilization: float = 0.85
    min_utilization: float = 0.4
    stabilization_ms: int = 300_000
    window_ms: int = 900_000
    catch_up_ms: int = 1_800_000
    scale_down_ms: int = 3_600_000
    scale_down_factor: float = 0.6
    scale_up_factor: float = 100_000.0
    detects_effect: bool = True
    effect_threshold: float = 0.1

    @classmethod
    def from_configuration(cls, configuration: Configuration) -> AutoscalerSettings:
        """Read the options; those that contradict each other are refused, also while the autoscaler is off."""
        get = configuration.get
        target = get(options.AUTOSCALER_TARGET)
        highest = get(options.AUTOSCALER_MAX_UTILIZATION)
        lowest = get(options.AUTOSCALER_MIN_UTILIZATION)
        settings = cls(
            enabled=get(options.AUTOSCALER_ENABLED),
            applies=get(options.AUTOSCALER_SCALING_ENABLED),
            min_parallelism=get(options.AUTOSCALER_MIN_PARALLELISM),
            max_parallelism=get(options.AUTOSCALER_MAX_PARALLELISM),
            target=target,
            max_utilization=(target + 1) / 2 if highest is None else highest,
            min_utilization=max(0.0, round(target - _BELOW_TARGET, 9))
            if lowest is None
            else lowest,
            stabilization_ms=get(options.AUTOSCALER_STABILIZATION).to_millis(),
            window_ms=get(options.AUTOSCALER_WINDOW).to_millis(),
            catch_up_ms=get(options.AUTOSCALER_CATCH_UP).to_millis(),
            scale_down_ms=get(options.AUTOSCALER_SCALE_DOWN_INTERVAL).to_millis(),
            scale_down_factor=get(options.AUTOSCALER_SCALE_DOWN_FACTOR),
            scale_up_factor=get(options.AUTOSCALER_SCALE_UP_FACTOR),
            detects_effect=get(options.AUTOSCALER_EFFECTIVENESS),
            effect_threshold=get(options.AUTOSCALER_EFFECTIVENESS_THRESHOLD),
        )
        settings._check()
        return settings

    def _check(self) -> None:
        if self.min_parallelism > self.max_parallelism:
            _refuse(
                options.AUTOSCALER_MIN_PARALLELISM,
                self.min_parallelism,
                f"use at most {self.max_parallelism}, the value of "
                f"{options.AUTOSCALER_MAX_PARALLELISM.key}",
            )
        if not 0 < self.target <= 1:
            _refuse(options.AUTOSCALER_TARGET, self.target, "use a part of 1, such as 0.7")
        if not self.target <= self.max_utilization <= 1:
            _refuse(
                options.AUTOSCALER_MAX_UTILIZATION,
                self.max_utilization,
                f"use a value from the target, {self.target}, to 1",
            )
        if not 0 <= self.min_utilization <= self.target:
            _refuse(
                options.AUTOSCALER_MIN_UTILIZATION,
                self.min_utilization,
                f"use a value from 0 to the target, {self.target}",
            )
        if not 0 <= self.scale_down_factor <= 1:
            _refuse(
                options.AUTOSCALER_SCALE_DOWN_FACTOR,
                self.scale_down_factor,
                "use a part of 1: 0.6 leaves at least 40 % of the subtasks",
            )


def _refuse(option: ConfigOption[object], value: object, hint: str) -> None:
    raise ConfigurationError(f"option '{option.key}' cannot be {value!r}", hint=hint)
