"""The file sink: buckets, part files, exactly-once delivery."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import IO, Any

from penstock.common.serialization import Encoder
from penstock.common.user_types import Record, StateValue
from penstock.connectors.base.sink import (
    Committer,
    Sink,
    SinkWriter,
    WriterContext,
)
from penstock.connectors.filesystem.buckets import BucketAssigner
from penstock.connectors.filesystem.committer import CommitPolicy, FileCommitter, sweep_files
from penstock.connectors.filesystem.rolling import (
    FileCompactor,
    FileCompactStrategy,
    OutputFileConfig,
    RollingPolicy,
)
from penstock.connectors.filesystem.writer import BulkPart, FileWriter, RowPart
from penstock.errors import ArgumentError, ArgumentTypeError
from penstock.files.file_system import resolve
from penstock.files.paths import normalize


class FileSink(Sink):
    """Writes records to part files in directories ("buckets") below a base path, each record exactly once.

    Records go to hidden files first; a checkpoint publishes them by renaming. Reading the directory at any moment shows
    complete files only, and only records of completed checkpoints. Row formats with the default rolling policy publish a
    file when its size or one of its intervals is reached; files of several checkpoints are concatenated then. With
    `RollingPolicy.on_checkpoint_rolling_policy()`, and for bulk formats, every checkpoint publishes.

    Names are `<prefix>-<subtask>-<checkpoint id>-<number>-<tag><suffix>`. The tag is a hash of the job's id, the operator's and
    the task attempt's, so that no run overwrites the files of another.

    >>> builder = FileSink.for_row_format("/data/words", Encoder.simple_string_encoder())
    >>> builder = builder.with_bucket_assigner(BucketAssigner.of(lambda word: word[0]))
    >>> sink = builder.with_output_file_config(OutputFileConfig("words", ".txt")).build()
    >>> sink.output_path()
    '/data/words'
    """

    def __init__(
        self,
        base_path: str,
        make_part: Callable[[IO[bytes]], Any],
        assigner: BucketAssigner,
        config: OutputFileConfig,
        part_size: int | None,
        policy: CommitPolicy,
    ) -> None:
        self.base_path = base_path
        self._make_part = make_part
        self._assigner = assigner
        self._config = config
        self._part_size = part_size
        self._policy = policy

    @staticmethod
    def for_row_format(base_path: object, encoder: object) -> FileSink.RowFormatBuilder:
        """Return a builder for row encoding; the encoder may be a function from record to str or bytes."""
        return FileSink.RowFormatBuilder(base_path, encoder)

    @staticmethod
    def for_bulk_format(base_path: object, writer_factory: object) -> FileSink.BulkFormatBuilder:
        """Return a builder for bulk formats, such as Parquet."""
        return FileSink.BulkFormatBuilder(base_path, writer_factory)

    def get_transformer(self) -> None:
        """Return None: records reach the sink unchanged."""

    def create_writer(self, context: WriterContext, restored: StateValue = None) -> SinkWriter:
        """Create the writer of one subtask."""
        return FileWriter(
            self.base_path,
            self._make_part,
            self._assigner,
            self._config.part_prefix,
            self._part_size,
            context,
        )

    def create_committer(self) -> FileCommitter:
        """Create the committer."""
        return FileCommitter(self.base_path, self._policy)

    def output_path(self) -> str | None:
        """Return the base path."""
        return self.base_path

    @staticmethod
    def sweep(
        base_path: object, is_referenced: Callable[[str], bool], job_id: str | None = None
    ) -> list[str]:
        """Delete hidden files below a path that no checkpoint refers to; return them.

        `is_referenced` gets paths relative to the base path. Without `job_id` the files of all jobs are considered: no job may be
        writing to the path then.
        """
        files, path = resolve(normalize(base_path, "base_path"))
        return sweep_files(files, path, is_referenced, job_id)

    class _Builder:
        """Settings of both kinds of formats."""

        _concatenable = False

        def __init__(self, base_path: Any, make_part: Callable[[IO[bytes]], Any]) -> None:
            self._base_path = normalize(base_path, "base_path")
            self._make_part = make_part
            self._assigner = BucketAssigner.date_time_bucket_assigner()
            self._config = OutputFileConfig()
            self._rolling = RollingPolicy.on_checkpoint_rolling_policy()
            self._compaction: tuple[FileCompactStrategy, FileCompactor] | None = None

        def with_bucket_check_interval(self, interval: int) -> object:
            """Accepted as in Flink (milliseconds), without effect: intervals are checked at every commit."""
            if not isinstance(interval, int) or interval <= 0:
                raise ArgumentError(
                    "the bucket check interval must be positive", detail=f"got {interval!r}"
                )
            return self

        def with_bucket_assigner(self, bucket_assigner: object) -> object:
            """Set the bucket assigner; a function from record to bucket id works too."""
            if not isinstance(bucket_assigner, BucketAssigner):
                if not callable(bucket_assigner):
                    raise ArgumentTypeError(
                        "the bucket assigner is not a BucketAssigner",
                        detail=f"got {bucket_assigner!r}",
                        hint="use BucketAssigner.of(function) or another of its methods",
                    )
                bucket_assigner = BucketAssigner.of(bucket_assigner)
            self._assigner = bucket_assigner
            return self

        def with_rolling_policy(self, rolling_policy: RollingPolicy) -> object:
            """Set when files are published."""
            if not isinstance(rolling_policy, RollingPolicy):
                raise ArgumentTypeError(
                    "the rolling policy is not a RollingPolicy",
                    detail=f"got {rolling_policy!r}",
                    hint="use RollingPolicy.default_rolling_policy()",
                )
            if not rolling_policy.on_checkpoint and not self._concatenable:
                raise ArgumentError(
                    "a bulk format rolls at every checkpoint",
                    hint="use RollingPolicy.on_checkpoint_rolling_policy(), or a row format",
                )
            self._rolling = rolling_policy
            return self

        def with_output_file_config(self, output_file_config: OutputFileConfig) -> object:
            """Set prefix and suffix of file names."""
            if not isinstance(output_file_config, OutputFileConfig):
                raise ArgumentTypeError(
                    "the output file config is not an OutputFileConfig",
                    detail=f"got {output_file_config!r}",
                    hint="use OutputFileConfig.builder()",
                )
            self._config = output_file_config
            return self

        def enable_compact(self, strategy: FileCompactStrategy, compactor: FileCompactor) -> object:
            """Keep files pending, and compact them by a strategy."""
            if not isinstance(strategy, FileCompactStrategy):
                raise ArgumentTypeError("the strategy is not a FileCompactStrategy")
            if not isinstance(compactor, FileCompactor):
                raise ArgumentTypeError("the compactor is not a FileCompactor")
            if compactor.concatenates and not self._concatenable:
                raise ArgumentError(
                    "files of a bulk format cannot be concatenated",
                    hint="use FileCompactor.identical_file_compactor(), or less frequent checkpoints",
                )
            self._compaction = (strategy, compactor)
            return self

        def disable_compact(self) -> object:
            """Publish files without compaction."""
            self._compaction = None
            return self

        def build(self) -> FileSink:
            """Create the sink."""
            rolling = self._rolling
            suffix = self._config.part_suffix
            if self._compaction is not None:
                strategy, compactor = self._compaction
                policy = CommitPolicy(
                    at_once=False,
                    part_size=strategy.size_threshold,
                    checkpoints=strategy.checkpoints,
                    concatenates=compactor.concatenates,
                    delimiter=compactor.delimiter,
                    suffix=suffix,
                )
            elif rolling.on_checkpoint:
                policy = CommitPolicy(suffix=suffix)
            else:
                policy = CommitPolicy(
                    at_once=False,
                    part_size=rolling.part_size,
                    rollover_interval=rolling.rollover_interval,
                    inactivity_interval=rolling.inactivity_interval,
                    suffix=suffix,
                )
            return FileSink(
                self._base_path,
                self._make_part,
                self._assigner,
                self._config,
                rolling.part_size,
                policy,
            )

    class RowFormatBuilder(_Builder):
        """Builds a FileSink that encodes records one by one."""

        _concatenable = True

        def __init__(self, base_path: Any, encoder: Any) -> None:
            super().__init__(base_path, partial(RowPart, _encoder_of(encoder)))
            self._rolling = RollingPolicy.default_rolling_policy()

    class BulkFormatBuilder(_Builder):
        """Builds a FileSink for a bulk format."""

        def __init__(self, base_path: Any, writer_factory: Any) -> None:
            if not callable(getattr(writer_factory, "create", None)):
                raise ArgumentTypeError(
                    "writer_factory is not a BulkWriterFactory",
                    detail=f"got {writer_factory!r}",
                    hint="use ParquetBulkWriters.for_row_type(...) or another BulkWriterFactory",
                )
            super().__init__(base_path, partial(BulkPart, writer_factory))


class StreamingFileSink(FileSink):
    """Flink's older name of FileSink."""


class _SchemaEncoder(Encoder):
    """Writes each record as a line, serialized by a SerializationSchema."""

    def __init__(self, schema: Any) -> None:
        self._schema = schema

    def encode(self, value: Record) -> bytes:
        data: bytes = self._schema.serialize(value)
        return data if data.endswith(b"\n") else data + b"\n"


def _encoder_of(encoder: object) -> object:
    if callable(getattr(encoder, "encode", None)) and not isinstance(encoder, (str, type)):
        return encoder
    if callable(getattr(encoder, "serialize", None)) and not isinstance(encoder, type):
        return _SchemaEncoder(encoder)
    if encoder is str or (callable(encoder) and not isinstance(encoder, type)):
        return Encoder.of(encoder)
    raise ArgumentTypeError(
        "encoder is not an Encoder",
        detail=f"got {encoder!r}",
        hint="use Encoder.simple_string_encoder(), Encoder.of(function) or a SerializationSchema",
    )


__all__ = ["Committer", "FileSink", "StreamingFileSink"]
