"""The settings of an environment, kept in its Configuration."""

from __future__ import annotations

import contextlib
import os
import warnings
from collections.abc import Iterator
from typing import Any, ClassVar, Self

from penstock import options
from penstock.common.execution_config import ExecutionConfig
from penstock.common.restart_strategy import (
    ExponentialDelay,
    FailureRate,
    FallBack,
    FixedDelay,
    NoRestart,
    RestartStrategyConfiguration,
    from_configuration,
)
from penstock.datastream._checks import check_max_parallelism, check_parallelism
from penstock.datastream.checkpoint_config import CheckpointConfig
from penstock.datastream.checkpoint_storage import as_flink_path
from penstock.datastream.checkpointing_mode import CheckpointingMode
from penstock.datastream.execution_mode import RuntimeExecutionMode
from penstock.datastream.slot_sharing_group import SlotSharingGroup
from penstock.datastream.state_backend import StateBackend
from penstock.dependencies.python_dependencies import (
    archive_option,
    check_cached_file,
    check_python_file,
    requirements_option,
)
from penstock.errors import UnsupportedOperationError
from penstock.errors.argument_checks import check_instance, check_int, check_text
from penstock.options.autoscaler_settings import AutoscalerSettings
from penstock.options.config_file import load_config_file
from penstock.options.config_options import ConfigOption
from penstock.options.configuration import Configuration
from penstock.options.option_checks import override, validate
from penstock.options.pinned_options import pin_options, pinned_options
from penstock.time.durations import Duration

_CHANGELOG = "state.changelog.enabled"
_CACHED_FILES = "pipeline.cached-files"


class EnvironmentConfiguration:
    """Base of the environment: its configuration, and the methods that read and write it."""

    _default_local_parallelism: ClassVar[int | None] = None
    _defaults: ClassVar[Configuration | None] = None  # None: those of penstock.yaml

    def __init__(self, configuration: Configuration | None = None) -> None:
        self._configuration = Configuration()
        self._checkpoint_config = CheckpointConfig(self._configuration)
        self._execution_config = ExecutionConfig(self._configuration)
        self._slot_sharing_groups: dict[str, SlotSharingGroup] = {}
        self._state_backend: StateBackend | None = None
        defaults = EnvironmentConfiguration._defaults
        self.configure(load_config_file()[0] if defaults is None else defaults)
        if configuration is not None:
            self.configure(configuration)

    @staticmethod
    @contextlib.contextmanager
    def default_configuration(
        configuration: Configuration, pinned: Configuration | None = None
    ) -> Iterator[None]:
        """Make environments that are created inside a `with` statement start with these options.

        Pinned options override those of the program.
        """
        before = EnvironmentConfiguration._defaults
        EnvironmentConfiguration._defaults = configuration
        try:
            with pin_options(pinned):
                yield
        finally:
            EnvironmentConfiguration._defaults = before

    def _pin(self) -> None:
        """Restore the options of the command line."""
        pinned = pinned_options()
        if pinned is not None:
            self._replace(override(self._configuration, pinned))

    def _replace(self, options_that_count: Configuration) -> None:
        """Set these options and no others, in place: programs keep the object that get_configuration() returned."""
        for key in self._configuration.key_set() - options_that_count.key_set():
            self._configuration.remove_config(key)
        self._configuration.add_all(options_that_count)

    def configure(self, configuration: Configuration) -> None:
        """Set options; unknown options and invalid values are rejected."""
        check_instance(
            configuration,
            Configuration,
            "configuration",
            hint='use Configuration.from_dict({"parallelism.default": "4"})',
        )
        validate(configuration)
        merged = override(self._configuration, configuration)
        maximum = merged.get(options.MAX_PARALLELISM)
        if maximum is not None:
            check_max_parallelism(maximum, merged.get(options.PARALLELISM))
        AutoscalerSettings.from_configuration(merged)
        self._replace(merged)
        self._pin()

    def get_configuration(self) -> Configuration:
        """Return the configuration behind all settings."""
        return self._configuration

    def get_config(self) -> ExecutionConfig:
        """Return the settings as an ExecutionConfig."""
        return self._execution_config

    def _set(self, option: ConfigOption[Any], value: Any) -> Self:
        for key in option.deprecated_keys:
            self._configuration.remove_config(key)
        self._configuration.set(option, value)
        self._pin()
        return self

    # Parallelism and mode

    def set_parallelism(self, parallelism: int) -> Self:
        """Set the default parallelism of operators."""
        check_parallelism(parallelism, self._configuration.get(options.MAX_PARALLELISM))
        return self._set(options.PARALLELISM, parallelism)

    def get_parallelism(self) -> int:
        """Return the default parallelism of operators; the number of cores unless set."""
        parallelism = self._configuration.get(options.PARALLELISM)
        return self.get_default_local_parallelism() if parallelism is None else parallelism

    def set_max_parallelism(self, max_parallelism: int) -> Self:
        """Set the number of key groups, the bound for later rescaling."""
        check_max_parallelism(max_parallelism, self._configuration.get(options.PARALLELISM))
        return self._set(options.MAX_PARALLELISM, max_parallelism)

    def get_max_parallelism(self) -> int:
        """Return the number of key groups, or -1 if it is derived from the parallelism."""
        return self._execution_config.get_max_parallelism()

    def get_default_local_parallelism(self) -> int:
        """Return the default parallelism of environments."""
        return EnvironmentConfiguration._default_local_parallelism or os.cpu_count() or 1

    def set_default_local_parallelism(self, parallelism: int) -> None:
        """Set the default parallelism of all environments."""
        EnvironmentConfiguration._default_local_parallelism = check_parallelism(parallelism)

    def set_runtime_mode(self, execution_mode: RuntimeExecutionMode) -> Self:
        """Set streaming or batch execution."""
        check_instance(
            execution_mode,
            RuntimeExecutionMode,
            "execution_mode",
            hint="use RuntimeExecutionMode.STREAMING, BATCH or AUTOMATIC",
        )
        return self._set(options.RUNTIME_MODE, execution_mode.name)

    def set_buffer_timeout(self, timeout_millis: int) -> Self:
        """Set how long elements may be buffered; -1 sends full buffers only."""
        check_int(timeout_millis, "timeout_millis", minimum=-1)
        return self._set(options.BUFFER_TIMEOUT, Duration.of_millis(timeout_millis))

    def get_buffer_timeout(self) -> int:
        """Return how long elements may be buffered, in milliseconds."""
        if not self._configuration.get(options.BUFFER_TIMEOUT_ENABLED):
            return -1
        return self._configuration.get(options.BUFFER_TIMEOUT).to_millis()

    # Chains and slots

    def disable_operator_chaining(self) -> Self:
        """Run every operator in its own task."""
        return self._set(options.OPERATOR_CHAINING, False)

    def is_chaining_enabled(self) -> bool:
        """Whether operators are chained where the rules allow it."""
        return self._configuration.get(options.OPERATOR_CHAINING)

    def is_chaining_of_operators_with_different_max_parallelism_enabled(self) -> bool:
        """Whether operators with different numbers of key groups may be chained."""
        return self._configuration.get(options.OPERATOR_CHAINING_DIFFERENT_MAX)

    def register_slot_sharing_group(self, slot_sharing_group: SlotSharingGroup) -> Self:
        """Set the resources of a slot sharing group."""
        check_instance(
            slot_sharing_group,
            SlotSharingGroup,
            "slot_sharing_group",
            hint='use SlotSharingGroup.builder("name").build()',
        )
        self._slot_sharing_groups[slot_sharing_group.get_name()] = slot_sharing_group
        return self

    # Checkpoints, state, restarts

    def enable_checkpointing(self, interval: int, mode: CheckpointingMode | None = None) -> Self:
        """Take a checkpoint every `interval` milliseconds, which may also be a Duration.

        A number below 100 is logged, as seconds were probably meant. A Duration of as many milliseconds is not.
        """
        self._checkpoint_config.set_checkpoint_interval(interval)
        if mode is not None:
            self._checkpoint_config.set_checkpointing_mode(mode)
        return self

    def get_checkpoint_config(self) -> CheckpointConfig:
        """Return the checkpointing settings."""
        return self._checkpoint_config

    def get_checkpoint_interval(self) -> int:
        """Return the milliseconds between two checkpoints, or -1."""
        return self._checkpoint_config.get_checkpoint_interval()

    def get_checkpointing_mode(self) -> CheckpointingMode:
        """Return the checkpointing mode."""
        return self._checkpoint_config.get_checkpointing_mode()

    def get_checkpointing_consistency_mode(self) -> CheckpointingMode:
        """Return the checkpointing mode, by the newer name."""
        return self._checkpoint_config.get_checkpointing_mode()

    def is_unaligned_checkpoints_enabled(self) -> bool:
        """Whether unaligned checkpoints are enabled."""
        return self._checkpoint_config.is_unaligned_checkpoints_enabled()

    def is_force_unaligned_checkpoints(self) -> bool:
        """Whether unaligned checkpoints are forced."""
        return self._checkpoint_config.is_force_unaligned_checkpoints()

    def set_state_backend(self, state_backend: StateBackend) -> Self:
        """Set the state backend, with the older API."""
        check_instance(
            state_backend,
            StateBackend,
            "state_backend",
            hint="use HashMapStateBackend() or EmbeddedRocksDBStateBackend()",
        )
        self.configure(Configuration.from_dict(state_backend.options()))
        self._state_backend = state_backend
        return self

    def get_state_backend(self) -> StateBackend | None:
        """Return the state backend that was set, or None."""
        return self._state_backend

    def enable_changelog_state_backend(self, enabled: bool) -> Self:
        """Enable Flink's changelog state backend, which is not supported: execute() rejects such a program."""
        self._configuration.set_boolean(_CHANGELOG, enabled)
        return self

    def is_changelog_state_backend_enabled(self) -> bool | None:
        """Whether the changelog state backend is enabled; None if not set."""
        if not self._configuration.contains_key(_CHANGELOG):
            return None
        return self._configuration.get_boolean(_CHANGELOG, False)

    def set_default_savepoint_directory(self, directory: str) -> Self:
        """Set the default directory of savepoints."""
        path = as_flink_path(check_text(directory, "directory"))
        return self._set(options.SAVEPOINT_DIR, path)

    def get_default_savepoint_directory(self) -> str | None:
        """Return the default directory of savepoints."""
        return self._configuration.get(options.SAVEPOINT_DIR)

    def set_restart_strategy(self, restart_strategy_configuration: Any) -> Self:
        """Set the restart strategy, with the older API."""
        check_instance(
            restart_strategy_configuration,
            RestartStrategyConfiguration,
            "restart_strategy_configuration",
            hint="use RestartStrategies.fixed_delay_restart(3, 1000)",
        )
        for option, value in _restart_options(restart_strategy_configuration):
            if value is None:
                self._configuration.remove_config(option.key)
            else:
                self._set(option, value)
        return self

    def get_restart_strategy(self) -> RestartStrategyConfiguration:
        """Return the restart strategy."""
        return from_configuration(
            self._configuration, self._checkpoint_config.is_checkpointing_enabled()
        )

    # Files and dependencies

    def add_python_file(self, file_path: str) -> None:
        """Make a Python file, an archive or the modules of a folder importable in tasks."""
        before = self._configuration.get(options.PYTHON_FILES)
        path = check_python_file(file_path)
        self._set(options.PYTHON_FILES, f"{before},{path}" if before else path)

    def set_python_requirements(
        self, requirements_file_path: str, requirements_cache_dir: str | None = None
    ) -> None:
        """Run tasks with the packages of a requirements file.

        They are installed where tasks run, once for each content of the file, in addition to the interpreter's packages. With
        a folder of packages (`pip download -d`) nothing is downloaded from an index.
        """
        entry = requirements_option(requirements_file_path, requirements_cache_dir)
        self._set(options.PYTHON_REQUIREMENTS, entry)

    def add_python_archive(self, archive_path: str, target_dir: str | None = None) -> None:
        """Unpack an archive into the working directory of tasks: a folder with the name of its file, or `target_dir`."""
        before = self._configuration.get(options.PYTHON_ARCHIVES)
        entry = archive_option(archive_path, target_dir)
        self._set(options.PYTHON_ARCHIVES, f"{before},{entry}" if before else entry)

    def set_python_executable(self, python_exec: str) -> None:
        """Set the interpreter of tasks: a path or command where they run, or a path into an archive."""
        self._set(options.PYTHON_EXECUTABLE, check_text(python_exec, "python_exec"))

    def register_cached_file(self, file_path: str, name: str, executable: bool = False) -> None:
        """Register a file under a name; it is not copied to tasks, as no PyFlink function can access it."""
        check_cached_file(check_text(file_path, "file_path"))
        entry = f"name:{check_text(name, 'name')},path:{file_path}"
        if executable:
            entry += ",executable:true"
        before = self._configuration.get_string(_CACHED_FILES, "")
        self._configuration.set_string(_CACHED_FILES, f"{before};{entry}" if before else entry)

    def add_jars(self, *jars_path: str) -> None:
        """Ignore jars, with a warning: connectors are Python here."""
        _warn_ignored("add_jars", jars_path)

    def add_classpaths(self, *classpaths: str) -> None:
        """Ignore class paths, with a warning: connectors are Python here."""
        _warn_ignored("add_classpaths", classpaths)


def _warn_ignored(method: str, given: tuple[str, ...]) -> None:
    warnings.warn(
        f"{method}({', '.join(map(repr, given))}) is ignored: Penstock runs no jars, its connectors are Python",
        stacklevel=3,
    )


def _restart_options(
    strategy: RestartStrategyConfiguration,
) -> list[tuple[ConfigOption[Any], Any]]:
    """Return the options of a restart strategy; None unsets one."""
    millis = Duration.of_millis
    match strategy:
        case NoRestart():
            return [(options.RESTART_TYPE, "none")]
        case FallBack():
            return [(options.RESTART_TYPE, None)]
        case FixedDelay():
            return [
                (options.RESTART_TYPE, "fixed-delay"),
                (options.FIXED_DELAY_ATTEMPTS, strategy.attempts),
                (options.FIXED_DELAY_DELAY, millis(strategy.delay_ms)),
            ]
        case FailureRate():
            return [
                (options.RESTART_TYPE, "failure-rate"),
                (options.FAILURE_RATE_MAX, strategy.max_failures),
                (options.FAILURE_RATE_INTERVAL, millis(strategy.interval_ms)),
                (options.FAILURE_RATE_DELAY, millis(strategy.delay_ms)),
            ]
        case ExponentialDelay():
            return [
                (options.RESTART_TYPE, "exponential-delay"),
                (options.EXPONENTIAL_INITIAL, millis(strategy.initial_ms)),
                (options.EXPONENTIAL_MAX, millis(strategy.max_ms)),
                (options.EXPONENTIAL_MULTIPLIER, strategy.multiplier),
                (options.EXPONENTIAL_RESET, millis(strategy.reset_ms)),
                (options.EXPONENTIAL_JITTER, strategy.jitter),
                (options.EXPONENTIAL_ATTEMPTS, strategy.max_attempts),
            ]
        case _:
            raise UnsupportedOperationError(
                f"restart strategy {type(strategy).__name__} is not supported"
            )
