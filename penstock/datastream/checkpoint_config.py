"""CheckpointConfig: the checkpointing settings of an environment."""

from __future__ import annotations

from typing import Any, Final

from penstock import options
from penstock.datastream.checkpoint_storage import CheckpointStorage, FileSystemCheckpointStorage
from penstock.datastream.checkpointing_mode import CheckpointingMode
from penstock.datastream.externalized_checkpoint_retention import ExternalizedCheckpointRetention
from penstock.errors.argument_checks import check_instance, check_int
from penstock.options.configuration import Configuration
from penstock.options.option_checks import warn_of_short_time
from penstock.time.durations import Duration, to_millis

_PLAUSIBLE_MS: Final = 100  # shorter intervals without a unit cause a warning
_SECOND_MS: Final = 1000


class CheckpointConfig:
    """When and how checkpoints are taken. It reads and writes the environment's configuration.

    >>> from penstock.datastream import StreamExecutionEnvironment
    >>> env = StreamExecutionEnvironment.get_execution_environment()
    >>> config = env.enable_checkpointing(5000).get_checkpoint_config()
    >>> config.set_checkpoint_timeout(60_000).get_checkpoint_timeout()
    60000
    >>> config.is_checkpointing_enabled(), config.get_checkpoint_interval()
    (True, 5000)
    """

    DEFAULT_MODE = CheckpointingMode.EXACTLY_ONCE
    DEFAULT_TIMEOUT = 10 * 60 * 1000
    DEFAULT_MIN_PAUSE_BETWEEN_CHECKPOINTS = 0
    DEFAULT_MAX_CONCURRENT_CHECKPOINTS = 1

    def __init__(self, configuration: Configuration) -> None:
        self._configuration = configuration
        self._storage: CheckpointStorage | None = None

    def is_checkpointing_enabled(self) -> bool:
        """Whether a checkpoint interval is set."""
        return self.get_checkpoint_interval() > 0

    def get_checkpoint_interval(self) -> int:
        """Return the milliseconds between two checkpoints, or -1."""
        interval = self._configuration.get(options.CHECKPOINT_INTERVAL)
        return -1 if interval is None else interval.to_millis()

    def set_checkpoint_interval(self, checkpoint_interval: int) -> CheckpointConfig:
        """Set the milliseconds between two checkpoints. A number below 100 is logged: seconds were probably meant."""
        return self._set_millis(
            options.CHECKPOINT_INTERVAL, checkpoint_interval, "checkpoint_interval", 10
        )

    def get_checkpointing_mode(self) -> CheckpointingMode:
        """Return the checkpointing mode."""
        return CheckpointingMode[self._configuration.get(options.CHECKPOINT_MODE)]

    def set_checkpointing_mode(self, checkpointing_mode: CheckpointingMode) -> CheckpointConfig:
        """Set the checkpointing mode. AT_LEAST_ONCE applies to pipelined mode: epoch mode is always exactly-once."""
        check_instance(checkpointing_mode, CheckpointingMode, "checkpointing_mode")
        return self._set(options.CHECKPOINT_MODE, checkpointing_mode.name)

    def get_checkpoint_timeout(self) -> int:
        """Return the milliseconds after which a checkpoint is aborted."""
        return self._configuration.get(options.CHECKPOINT_TIMEOUT).to_millis()

    def set_checkpoint_timeout(self, checkpoint_timeout: int) -> CheckpointConfig:
        """Set the milliseconds after which a checkpoint is aborted."""
        return self._set_millis(
            options.CHECKPOINT_TIMEOUT, checkpoint_timeout, "checkpoint_timeout", 10
        )

    def get_min_pause_between_checkpoints(self) -> int:
        """Return the minimum milliseconds from the end of a checkpoint to the start of the next."""
        return self._configuration.get(options.CHECKPOINT_MIN_PAUSE).to_millis()

    def set_min_pause_between_checkpoints(
        self, min_pause_between_checkpoints: int
    ) -> CheckpointConfig:
        """Set the minimum milliseconds from the end of a checkpoint to the start of the next."""
        return self._set_millis(
            options.CHECKPOINT_MIN_PAUSE,
            min_pause_between_checkpoints,
            "min_pause_between_checkpoints",
            0,
        )

    def get_max_concurrent_checkpoints(self) -> int:
        """Return how many checkpoints may be in progress at a time."""
        return self._configuration.get(options.CHECKPOINT_MAX_CONCURRENT)

    def set_max_concurrent_checkpoints(self, max_concurrent_checkpoints: int) -> CheckpointConfig:
        """Set how many checkpoints may be in progress at a time, in pipelined mode: epoch mode takes one at a time."""
        check_int(max_concurrent_checkpoints, "max_concurrent_checkpoints", minimum=1)
        return self._set(options.CHECKPOINT_MAX_CONCURRENT, max_concurrent_checkpoints)

    def is_fail_on_checkpointing_errors(self) -> bool:
        """Whether the first failed checkpoint fails the job."""
        return self.get_tolerable_checkpoint_failure_number() == 0

    def set_fail_on_checkpointing_errors(
        self, fail_on_checkpointing_errors: bool
    ) -> CheckpointConfig:
        """Set whether the first failed checkpoint fails the job."""
        return self.set_tolerable_checkpoint_failure_number(
            0 if fail_on_checkpointing_errors else 2**31 - 1
        )

    def get_tolerable_checkpoint_failure_number(self) -> int:
        """Return how many consecutive checkpoint failures are tolerated."""
        return self._configuration.get(options.CHECKPOINT_TOLERABLE_FAILURES)

    def set_tolerable_checkpoint_failure_number(
        self, tolerable_checkpoint_failure_number: int
    ) -> CheckpointConfig:
        """Set how many consecutive checkpoint failures are tolerated."""
        check_int(
            tolerable_checkpoint_failure_number, "tolerable_checkpoint_failure_number", minimum=0
        )
        return self._set(options.CHECKPOINT_TOLERABLE_FAILURES, tolerable_checkpoint_failure_number)

    def set_externalized_checkpoint_retention(
        self, retention_mode: ExternalizedCheckpointRetention
    ) -> CheckpointConfig:
        """Set whether checkpoints are retained when the job is cancelled."""
        check_instance(retention_mode, ExternalizedCheckpointRetention, "retention_mode")
        return self._set(options.CHECKPOINT_RETENTION, retention_mode.name)

    def get_externalized_checkpoint_retention(self) -> ExternalizedCheckpointRetention:
        """Return whether checkpoints are retained when the job is cancelled."""
        return ExternalizedCheckpointRetention[
            self._configuration.get(options.CHECKPOINT_RETENTION)
        ]

    def is_externalized_checkpoints_enabled(self) -> bool:
        """Whether checkpoints are retained after the job has failed."""
        return (
            self.get_externalized_checkpoint_retention()
            is not ExternalizedCheckpointRetention.NO_EXTERNALIZED_CHECKPOINTS
        )

    def is_unaligned_checkpoints_enabled(self) -> bool:
        """Whether barriers may overtake records, which are then part of the checkpoint."""
        return self._configuration.get(options.UNALIGNED)

    def enable_unaligned_checkpoints(self, enabled: bool = True) -> CheckpointConfig:
        """Let barriers overtake records, which are then part of the checkpoint; without effect in epoch mode."""
        return self._set(options.UNALIGNED, bool(enabled))

    def disable_unaligned_checkpoints(self) -> CheckpointConfig:
        """Use aligned checkpoints: channels wait for barrier alignment."""
        return self.enable_unaligned_checkpoints(enabled=False)

    def set_aligned_checkpoint_timeout(self, alignment_timeout: Duration) -> CheckpointConfig:
        """Set how long an unaligned checkpoint first tries barrier alignment; 0: not at all."""
        return self._set_millis(options.ALIGNED_TIMEOUT, alignment_timeout, "alignment_timeout", 0)

    def get_aligned_checkpoint_timeout(self) -> Duration:
        """Return how long an unaligned checkpoint first tries barrier alignment."""
        return self._configuration.get(options.ALIGNED_TIMEOUT)

    def set_alignment_timeout(self, alignment_timeout: Duration) -> CheckpointConfig:
        """Older name of `set_aligned_checkpoint_timeout`."""
        return self.set_aligned_checkpoint_timeout(alignment_timeout)

    def get_alignment_timeout(self) -> Duration:
        """Older name of `get_aligned_checkpoint_timeout`."""
        return self.get_aligned_checkpoint_timeout()

    def set_force_unaligned_checkpoints(
        self, force_unaligned_checkpoints: bool = True
    ) -> CheckpointConfig:
        """Accepted as in Flink, without effect: unaligned checkpoints are always possible."""
        return self._set(options.UNALIGNED_FORCED, bool(force_unaligned_checkpoints))

    def is_force_unaligned_checkpoints(self) -> bool:
        """Whether unaligned checkpoints are forced."""
        return self._configuration.get(options.UNALIGNED_FORCED)

    def set_checkpoint_storage(self, storage: CheckpointStorage) -> CheckpointConfig:
        """Set the checkpoint storage, with the older API."""
        check_instance(
            storage, CheckpointStorage, "storage", hint="use FileSystemCheckpointStorage(path)"
        )
        for key, value in storage.options().items():
            self._configuration.set(key, value)
        self._storage = storage
        return self

    def set_checkpoint_storage_dir(self, checkpoint_path: str) -> CheckpointConfig:
        """Set the checkpoint directory, with the older API."""
        return self.set_checkpoint_storage(FileSystemCheckpointStorage(checkpoint_path))

    def get_checkpoint_storage(self) -> CheckpointStorage | None:
        """Return the storage that was set, or None."""
        return self._storage

    def _set(self, option: Any, value: Any) -> CheckpointConfig:
        self._configuration.set(option, value)
        return self

    def _set_millis(self, option: Any, value: object, what: str, minimum: int) -> CheckpointConfig:
        # Programs with several checkpoints per second also give the other settings in milliseconds.
        often = _PLAUSIBLE_MS <= self.get_checkpoint_interval() < _SECOND_MS
        if option is options.CHECKPOINT_INTERVAL or not often:
            warn_of_short_time(option.key, value)
        return self._set(option, Duration.of_millis(to_millis(value, what, minimum=minimum)))
