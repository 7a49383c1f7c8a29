"""Rolling policies: when a part file is complete, and how small ones are compacted."""

from __future__ import annotations

from dataclasses import dataclass, field

from penstock.errors import ArgumentError, ArgumentTypeError
from penstock.errors.not_implemented import not_implemented


@dataclass(frozen=True, slots=True)
class RollingPolicy:
    """When a part file is closed and published. Without sizes and intervals: at every checkpoint."""

    get_java_object = not_implemented("there is no JVM object behind a rolling policy")

    part_size: int | None = None
    rollover_interval: int | None = None
    inactivity_interval: int | None = None

    @staticmethod
    def default_rolling_policy(
        part_size: int = 1024 * 1024 * 128,
        rollover_interval: int = 60 * 1000,
        inactivity_interval: int = 60 * 1000,
    ) -> RollingPolicy:
        """Publish a file that has this size, was created or was last written to this many milliseconds ago."""
        for name, value in (
            ("part_size", part_size),
            ("rollover_interval", rollover_interval),
            ("inactivity_interval", inactivity_interval),
        ):
            if not isinstance(value, int) or isinstance(value, bool):
                raise ArgumentTypeError(f"{name} is not an integer", detail=f"{name}={value!r}")
            if value <= 0:
                raise ArgumentError(f"{name} must be positive", detail=f"{name}={value}")
        return RollingPolicy(part_size, rollover_interval, inactivity_interval)

    @staticmethod
    def on_checkpoint_rolling_policy() -> RollingPolicy:
        """Publish all files at every checkpoint."""
        return RollingPolicy()

    @property
    def on_checkpoint(self) -> bool:
        """Whether every checkpoint publishes everything."""
        return self.part_size is None


@dataclass(frozen=True, slots=True)
class OutputFileConfig:
    """Prefix and suffix of part file names."""

    get_java_object = not_implemented("there is no JVM object behind a configuration")

    part_prefix: str = "part"
    part_suffix: str = ""

    def __post_init__(self) -> None:
        for name, value in (("prefix", self.part_prefix), ("suffix", self.part_suffix)):
            if not isinstance(value, str) or "/" in value or "\0" in value:
                raise ArgumentError(f"invalid {name} of part files", detail=f"{name}={value!r}")
        if self.part_prefix.startswith((".", "_")):
            raise ArgumentError(
                "part files would be hidden",
                detail=f"the prefix is {self.part_prefix!r}",
                hint="start the prefix with a letter or a digit",
            )

    @staticmethod
    def builder() -> OutputFileConfig.OutputFileConfigBuilder:
        """Return a builder."""
        return OutputFileConfig.OutputFileConfigBuilder()

    def get_part_prefix(self) -> str:
        """Return the prefix."""
        return self.part_prefix

    def get_part_suffix(self) -> str:
        """Return the suffix."""
        return self.part_suffix

    class OutputFileConfigBuilder:
        """Builds an OutputFileConfig."""

        def __init__(self) -> None:
            self._prefix = "part"
            self._suffix = ""

        def with_part_prefix(self, prefix: str) -> OutputFileConfig.OutputFileConfigBuilder:
            """Set the prefix."""
            self._prefix = prefix
            return self

        def with_part_suffix(self, suffix: str) -> OutputFileConfig.OutputFileConfigBuilder:
            """Set the suffix, including its dot."""
            self._suffix = suffix
            return self

        def build(self) -> OutputFileConfig:
            """Create the configuration."""
            return OutputFileConfig(self._prefix, self._suffix)


@dataclass(frozen=True, slots=True)
class FileCompactStrategy:
    """When small files are compacted: at a size in bytes, or after a number of checkpoints."""

    get_java_object = not_implemented("there is no JVM object behind a strategy")

    size_threshold: int | None = None
    checkpoints: int | None = None

    @staticmethod
    def builder() -> FileCompactStrategy.Builder:
        """Return a builder."""
        return FileCompactStrategy.Builder()

    class Builder:
        """Builds a FileCompactStrategy."""

        def __init__(self) -> None:
            self._size: int | None = None
            self._checkpoints: int | None = None

        def set_size_threshold(self, size_threshold: int) -> FileCompactStrategy.Builder:
            """Compact when the pending files have this size in total."""
            if size_threshold <= 0:
                raise ArgumentError(
                    "the size threshold must be positive", detail=f"got {size_threshold}"
                )
            self._size = size_threshold
            return self

        def enable_compaction_on_checkpoint(
            self, num_checkpoints_before_compaction: int
        ) -> FileCompactStrategy.Builder:
            """Compact after this many checkpoints."""
            if num_checkpoints_before_compaction < 1:
                raise ArgumentError(
                    "the number of checkpoints must be positive",
                    detail=f"got {num_checkpoints_before_compaction}",
                )
            self._checkpoints = num_checkpoints_before_compaction
            return self

        def set_num_compact_threads(self, num_compact_threads: int) -> FileCompactStrategy.Builder:
            """Accepted as in Flink, without effect: compaction runs on the driver, during the commit."""
            if num_compact_threads < 1:
                raise ArgumentError(
                    "the number of threads must be positive", detail=f"got {num_compact_threads}"
                )
            return self

        def build(self) -> FileCompactStrategy:
            """Create the strategy."""
            if self._size is None and self._checkpoints is None:
                raise ArgumentError(
                    "a compaction strategy needs a condition",
                    hint="call set_size_threshold or enable_compaction_on_checkpoint",
                )
            return FileCompactStrategy(self._size, self._checkpoints)


@dataclass(frozen=True, slots=True)
class FileCompactor:
    """How files are compacted."""

    get_java_object = not_implemented("there is no JVM object behind a compactor")

    delimiter: bytes = b""
    concatenates: bool = field(default=True, kw_only=True)

    @staticmethod
    def concat_file_compactor(file_delimiter: object = None) -> FileCompactor:
        """Concatenate files, with an optional delimiter between them."""
        if file_delimiter is None:
            return FileCompactor()
        if isinstance(file_delimiter, str):
            return FileCompactor(file_delimiter.encode("utf-8"))
        if isinstance(file_delimiter, bytes):
            return FileCompactor(file_delimiter)
        raise ArgumentTypeError(
            "file_delimiter is not a str or bytes", detail=f"got {file_delimiter!r}"
        )

    @staticmethod
    def identical_file_compactor() -> FileCompactor:
        """Publish each file unchanged."""
        return FileCompactor(concatenates=False)
