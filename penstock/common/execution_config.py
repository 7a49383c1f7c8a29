"""ExecutionConfig: the settings of a program, on top of its Configuration."""

from __future__ import annotations

from typing import Any

from penstock import options
from penstock.errors import ArgumentError, ArgumentTypeError
from penstock.options.config_options import ConfigOption
from penstock.options.config_values import to_text
from penstock.options.configuration import Configuration
from penstock.time.durations import Duration, to_millis


class ExecutionConfig:
    """The settings of a program. Setters return the object itself.

    Everything is kept in the configuration, so options set there and settings made here are one and the same.
    """

    PARALLELISM_DEFAULT = -1
    PARALLELISM_UNKNOWN = -2

    def __init__(self, configuration: Configuration | None = None) -> None:
        self._configuration = Configuration() if configuration is None else configuration

    @property
    def configuration(self) -> Configuration:
        """The configuration behind these settings."""
        return self._configuration

    def _set(self, option: ConfigOption[Any], value: Any) -> ExecutionConfig:
        for key in option.deprecated_keys:
            self._configuration.remove_config(key)
        self._configuration.set(option, value)
        return self

    def _set_count(
        self, option: ConfigOption[int | None], value: int, what: str
    ) -> ExecutionConfig:
        if isinstance(value, bool) or not isinstance(value, int):
            raise ArgumentTypeError(f"{what} is not an int: {value!r}")
        if value == self.PARALLELISM_DEFAULT:
            self._configuration.remove_config(option.key)
            return self
        if value < 1:
            raise ArgumentError(f"{what} must be at least 1, not {value}")
        return self._set(option, value)

    def get_parallelism(self) -> int:
        """Return the parallelism of operators that set none; -1 if the cluster decides."""
        value = self._configuration.get(options.PARALLELISM)
        return self.PARALLELISM_DEFAULT if value is None else value

    def set_parallelism(self, parallelism: int) -> ExecutionConfig:
        """Set the parallelism of operators that set none; -1 lets the cluster decide."""
        return self._set_count(options.PARALLELISM, parallelism, "parallelism")

    def get_max_parallelism(self) -> int:
        """Return the number of key groups; -1 if none was set."""
        value = self._configuration.get(options.MAX_PARALLELISM)
        return -1 if value is None else value

    def set_max_parallelism(self, max_parallelism: int) -> ExecutionConfig:
        """Set the number of key groups, which is the upper bound of any parallelism."""
        if isinstance(max_parallelism, int) and max_parallelism > 32768:
            raise ArgumentError(f"max_parallelism must be at most 32768, not {max_parallelism}")
        return self._set_count(options.MAX_PARALLELISM, max_parallelism, "max_parallelism")

    def get_auto_watermark_interval(self) -> int:
        """Return how often periodic watermarks are emitted, in milliseconds."""
        return self._configuration.get(options.AUTO_WATERMARK_INTERVAL).to_millis()

    def set_auto_watermark_interval(self, interval: int) -> ExecutionConfig:
        """Set how often periodic watermarks are emitted, in milliseconds; 0 turns them off."""
        return self._set_millis(options.AUTO_WATERMARK_INTERVAL, interval, "interval")

    def _set_millis(
        self, option: ConfigOption[Duration], value: object, what: str, minimum: int | None = 0
    ) -> ExecutionConfig:
        return self._set(option, Duration.of_millis(to_millis(value, what, minimum=minimum)))

    def get_latency_tracking_interval(self) -> int:
        """Return the interval of latency markers, in milliseconds."""
        return self._configuration.get(options.LATENCY_INTERVAL).to_millis()

    def set_latency_tracking_interval(self, interval: int) -> ExecutionConfig:
        """Set how often sources send latency markers in pipelined mode, in milliseconds; 0: never."""
        return self._set_millis(options.LATENCY_INTERVAL, interval, "interval", minimum=None)

    def get_task_cancellation_interval(self) -> int:
        """Return the time between attempts to cancel a task, in milliseconds."""
        return self._configuration.get(options.TASK_CANCELLATION_INTERVAL).to_millis()

    def set_task_cancellation_interval(self, interval: int) -> ExecutionConfig:
        """Keep the setting, which is not supported: execute() logs a warning."""
        return self._set_millis(options.TASK_CANCELLATION_INTERVAL, interval, "interval")

    def get_task_cancellation_timeout(self) -> int:
        """Return the time a task has to cancel, in milliseconds."""
        return self._configuration.get(options.TASK_CANCELLATION_TIMEOUT).to_millis()

    def set_task_cancellation_timeout(self, timeout: int) -> ExecutionConfig:
        """Keep the setting, which is not supported: execute() logs a warning."""
        return self._set_millis(options.TASK_CANCELLATION_TIMEOUT, timeout, "timeout")

    def get_global_job_parameters(self) -> dict[str, str]:
        """Return the parameters that user functions can read."""
        parameters = self._configuration.get(options.GLOBAL_JOB_PARAMETERS)
        return dict(parameters)

    def set_global_job_parameters(
        self, global_job_parameters_dict: dict[str, Any]
    ) -> ExecutionConfig:
        """Set the parameters that user functions can read; values are kept as text."""
        if not isinstance(global_job_parameters_dict, dict):
            raise ArgumentTypeError(
                f"global_job_parameters_dict is not a dict: {global_job_parameters_dict!r}"
            )
        prefix = f"{options.GLOBAL_JOB_PARAMETERS.key}."
        for key in self._configuration.key_set():
            if key.startswith(prefix):
                self._configuration.remove_config(key)
        parameters = {str(key): to_text(value) for key, value in global_job_parameters_dict.items()}
        return self._set(options.GLOBAL_JOB_PARAMETERS, parameters)

    def enable_auto_generated_uids(self) -> ExecutionConfig:
        """Give operators without a uid one from their place in the graph."""
        return self._set(options.AUTO_GENERATE_UIDS, True)

    def disable_auto_generated_uids(self) -> ExecutionConfig:
        """Refuse operators without a uid."""
        return self._set(options.AUTO_GENERATE_UIDS, False)

    def has_auto_generated_uids_enabled(self) -> bool:
        """Whether operators without a uid get one."""
        return self._configuration.get(options.AUTO_GENERATE_UIDS)

    def enable_object_reuse(self) -> ExecutionConfig:
        """Keep the setting: chained operators hand records on as they are, always."""
        return self._set(options.OBJECT_REUSE, True)

    def disable_object_reuse(self) -> ExecutionConfig:
        """Keep the setting, which is not supported: execute() logs a warning."""
        return self._set(options.OBJECT_REUSE, False)

    def is_object_reuse_enabled(self) -> bool:
        """Return what was set."""
        return self._configuration.get(options.OBJECT_REUSE)

    def is_use_snapshot_compression(self) -> bool:
        """Return what was set."""
        return self._configuration.get(options.SNAPSHOT_COMPRESSION)

    def set_use_snapshot_compression(self, use_snapshot_compression: bool) -> ExecutionConfig:
        """Keep the setting, which is not supported: execute() logs a warning."""
        return self._set(options.SNAPSHOT_COMPRESSION, use_snapshot_compression)

    # What follows belongs to Flink's Java serializers. It is kept and given back, without effect.

    def enable_closure_cleaner(self) -> ExecutionConfig:
        """Keep the setting, without effect."""
        return self._set(options.CLOSURE_CLEANER_LEVEL, "RECURSIVE")

    def disable_closure_cleaner(self) -> ExecutionConfig:
        """Keep the setting, without effect."""
        return self._set(options.CLOSURE_CLEANER_LEVEL, "NONE")

    def is_closure_cleaner_enabled(self) -> bool:
        """Return what was set."""
        return self._configuration.get(options.CLOSURE_CLEANER_LEVEL) != "NONE"

    def enable_generic_types(self) -> ExecutionConfig:
        """Keep the setting: records of any type are pickled."""
        return self._set(options.GENERIC_TYPES, True)

    def disable_generic_types(self) -> ExecutionConfig:
        """Keep the setting, which is not supported: execute() logs a warning."""
        return self._set(options.GENERIC_TYPES, False)

    def has_generic_types_disabled(self) -> bool:
        """Return what was set."""
        return not self._configuration.get(options.GENERIC_TYPES)

    def enable_force_kryo(self) -> ExecutionConfig:
        """Keep the setting, without effect."""
        return self._set(options.FORCE_KRYO, True)

    def disable_force_kryo(self) -> ExecutionConfig:
        """Keep the setting, without effect."""
        return self._set(options.FORCE_KRYO, False)

    def is_force_kryo_enabled(self) -> bool:
        """Return what was set."""
        return self._configuration.get(options.FORCE_KRYO)

    def enable_force_avro(self) -> ExecutionConfig:
        """Keep the setting, without effect."""
        return self._set(options.FORCE_AVRO, True)

    def disable_force_avro(self) -> ExecutionConfig:
        """Keep the setting, without effect."""
        return self._set(options.FORCE_AVRO, False)

    def is_force_avro_enabled(self) -> bool:
        """Return what was set."""
        return self._configuration.get(options.FORCE_AVRO)

    def get_default_kryo_serializer_classes(self) -> dict[str, str]:
        """Return an empty dictionary: there are no Java serializers."""
        return {}

    def get_registered_kryo_types(self) -> list[str]:
        """Return an empty list: there are no Java serializers."""
        return []

    def get_registered_pojo_types(self) -> list[str]:
        """Return an empty list: there are no Java serializers."""
        return []

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ExecutionConfig) and self._configuration == other._configuration

    def __hash__(self) -> int:
        return hash(self._configuration)


__all__ = ["ExecutionConfig"]
