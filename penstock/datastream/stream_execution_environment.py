"""StreamExecutionEnvironment: the entry point of a program, and its execution."""

from __future__ import annotations

import logging
import weakref
from collections.abc import Iterable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from penstock import options
from penstock.client import executors
from penstock.common.job_client import JobClient
from penstock.common.job_execution_result import JobExecutionResult
from penstock.common.typeinfo import TypeInformation, Types
from penstock.common.watermark_strategy import WatermarkStrategy
from penstock.connectors.base.source import Source
from penstock.datastream import _typed
from penstock.datastream._environment_settings import EnvironmentConfiguration
from penstock.datastream._unexecuted import Definitions, executed
from penstock.datastream.basic_functions import SourceFunction
from penstock.datastream.output_tag import OutputTag
from penstock.datastream.stream import DataStream
from penstock.errors import ArgumentTypeError, InvalidProgramError
from penstock.errors.argument_checks import check_instance, check_text, describe
from penstock.errors.data_frames import refuse_data_frame
from penstock.graph.compiler import compile_program, execution_plan_json
from penstock.graph.operator_specs import SourceSpec
from penstock.graph.settings import GraphSettings
from penstock.graph.transformations import OperatorTransformation, Transformation
from penstock.options.configuration import Configuration
from penstock.options.option_checks import validate

if TYPE_CHECKING:
    from penstock.datastream.cached_stream import CachedDataStream

_log = logging.getLogger(__name__)

DEFAULT_JOB_NAME = "Flink Streaming Job"


class StreamExecutionEnvironment(EnvironmentConfiguration):
    """The context of a program: its settings, its sources, its execution.

    >>> env = StreamExecutionEnvironment.get_execution_environment()
    >>> _ = env.set_parallelism(2)
    >>> numbers = env.from_collection([1, 2, 3], Types.INT())
    >>> _ = numbers.map(lambda number: number + 1, Types.INT()).print()
    >>> import json
    >>> [node["type"] for node in json.loads(env.get_execution_plan())["nodes"]]
    ['Source: Collection Source', 'Map', 'Sink: Print to Std. Out']

    `env.execute()` runs it.
    """

    def __init__(self, configuration: Configuration | None = None) -> None:
        super().__init__(configuration)
        self._transformations: list[Transformation] = []
        self._side_outputs: dict[tuple[int, str], Any] = {}
        self._output_paths: dict[str, OperatorTransformation] = {}
        self._caches: weakref.WeakSet[CachedDataStream] = weakref.WeakSet()
        self._unexecuted = Definitions("environment")

    @staticmethod
    def get_execution_environment(
        configuration: Configuration | None = None,
    ) -> StreamExecutionEnvironment:
        """Return a new environment, with its own options."""
        return StreamExecutionEnvironment(configuration)

    # Sources

    def from_collection(
        self, collection: Iterable[Any], type_info: TypeInformation | None = None
    ) -> DataStream:
        """Read the elements of a collection, in one subtask."""
        refuse_data_frame(collection, "from_collection")
        if isinstance(collection, str | bytes | bytearray | dict) or not isinstance(
            collection, Iterable
        ):
            raise ArgumentTypeError(
                f"collection must be a list of elements, got {describe(collection)}",
                hint="wrap a single element in a list",
            )
        kind = _typed.check_type(type_info, "type_info")
        elements = list(collection)
        if kind is not None:
            elements = [kind.validate(element) for element in elements]
        from penstock.datastream.connectors.collection import CollectionSource

        source: Any = CollectionSource(elements)
        source.carries_timestamps = False
        stream = self._source(source, WatermarkStrategy.no_watermarks(), "Collection Source", kind)
        operator = stream.transformation
        assert isinstance(operator, OperatorTransformation)
        operator.parallelism = 1
        operator.parallelism_fixed = True
        return stream

    def from_source(
        self,
        source: Source,
        watermark_strategy: WatermarkStrategy,
        source_name: str,
        type_info: TypeInformation | None = None,
    ) -> DataStream:
        """Read a source; timestamps and watermarks are generated per split."""
        check_instance(
            watermark_strategy,
            WatermarkStrategy,
            "watermark_strategy",
            hint="use WatermarkStrategy.no_watermarks() if the program needs no event time",
        )
        check_text(source_name, "source_name")
        return self._source(source, watermark_strategy, source_name, type_info)

    def add_source(
        self,
        source_func: SourceFunction | Source,
        source_name: str = "Custom Source",
        type_info: TypeInformation | None = None,
    ) -> DataStream:
        """Read a source without watermarks, with PyFlink's old API."""
        source = source_func.source if isinstance(source_func, SourceFunction) else source_func
        check_text(source_name, "source_name")
        return self._source(source, WatermarkStrategy.no_watermarks(), source_name, type_info)

    def from_spark(
        self,
        df: object,
        watermark_strategy: WatermarkStrategy | None = None,
        source_name: str = "Spark DataFrame",
    ) -> DataStream:
        """Read a bounded DataFrame of Spark as Rows; timestamps and watermarks are generated per partition of it.

        When the job starts, Spark computes the DataFrame once and its tasks write the rows to files of the job, which source subtasks
        read from then on: what a job reads again after a failure is the same. Each partition is read in its order by one subtask.
        """
        from penstock.connectors.spark.source import DataFrameSource, data_frame_columns

        frame, columns = data_frame_columns(df, "from_spark")
        check_text(source_name, "source_name")
        strategy = watermark_strategy or WatermarkStrategy.no_watermarks()
        check_instance(strategy, WatermarkStrategy, "watermark_strategy")
        source = DataFrameSource(frame, columns, source_name, columnar=False)
        return self._source(source, strategy, source_name, None)

    def from_spark_stream(
        self,
        df: object,
        watermark_strategy: WatermarkStrategy | None = None,
        source_name: str = "Spark stream",
        *,
        trigger_interval: str | None = None,
    ) -> DataStream:
        """Read a streaming DataFrame of Spark as Rows, with all sources and options that Structured Streaming has.

        A streaming query of Spark writes its micro-batches to files of the job, and its offsets are part of the job's checkpoints: each
        row is read once, also after a failure. `trigger_interval` is the time from one micro-batch to the next, such as "1 second";
        without it, each follows the one before.
        """
        from penstock.connectors.spark.source import data_frame_columns
        from penstock.connectors.spark.stream_source import DataFrameStreamSource

        frame, columns = data_frame_columns(df, "from_spark_stream", streaming=True)
        check_text(source_name, "source_name")
        if trigger_interval is not None:
            check_text(trigger_interval, "trigger_interval")
        strategy = watermark_strategy or WatermarkStrategy.no_watermarks()
        check_instance(strategy, WatermarkStrategy, "watermark_strategy")
        source = DataFrameStreamSource(
            frame, columns, source_name, columnar=False, trigger_interval=trigger_interval
        )
        return self._source(source, strategy, source_name, None)

    def create_input(
        self, input_format: Any, type_info: TypeInformation | None = None
    ) -> DataStream:
        """Read an input format, such as an AvroInputFormat."""
        from penstock.datastream.connectors.file_system import FileSource

        make_format = getattr(input_format, "file_format", None)
        if not callable(make_format):
            raise ArgumentTypeError(
                "unsupported input format",
                detail=f"got {input_format!r}",
                hint="use an AvroInputFormat, or from_source with a Source",
            )
        source: Any = FileSource.for_record_stream_format(make_format(), input_format.path).build()
        source.carries_timestamps = False
        name = type(input_format).__name__
        produced = type_info or input_format.get_produced_type()
        return self._source(source, WatermarkStrategy.no_watermarks(), name, produced)

    def read_text_file(self, file_path: str, charset_name: str = "UTF-8") -> DataStream:
        """Read the lines of text files, with the older API."""
        from penstock.datastream.connectors.file_system import FileSource, StreamFormat

        check_text(file_path, "file_path")
        source: Any = FileSource.for_record_stream_format(
            StreamFormat.text_line_format(charset_name), file_path
        ).build()
        source.carries_timestamps = False
        return self._source(
            source, WatermarkStrategy.no_watermarks(), f"Text file {file_path}", Types.STRING()
        )

    def _source(
        self,
        source: Any,
        watermark_strategy: WatermarkStrategy,
        name: str,
        type_info: TypeInformation | None,
    ) -> DataStream:
        check_instance(
            source, Source, "a source", hint="build one, such as FileSource or NumberSequenceSource"
        )
        kind = _typed.check_type(type_info, "type_info")
        if kind is None:
            kind = getattr(source, "get_produced_type", lambda: None)()
        operator = OperatorTransformation(
            name, output_type=kind, spec=SourceSpec(source, watermark_strategy), kind="source"
        )
        return DataStream(self, operator)

    # Registration by streams

    def add_operator(self, transformation: Transformation) -> None:
        """Add a step to the program. Sources are added when they are read."""
        self._transformations.append(transformation)
        if isinstance(transformation, OperatorTransformation):
            self._unexecuted.add(transformation.name, transformation.id)

    def register_side_output(self, operator: OperatorTransformation, tag: OutputTag) -> None:
        """Register that a side output is read; reject the same name with another type."""
        known = self._side_outputs.setdefault((operator.id, tag.tag_id), tag.type_info)
        operator.side_types.setdefault(tag.tag_id, tag.type_info)
        if known != tag.type_info:
            raise InvalidProgramError(
                f"side output '{tag.tag_id}' of operator '{operator.name}' is used with two types",
                detail=f"first {known}, now {tag.type_info}",
                hint="use one OutputTag object, or tags with different names",
            )

    def register_cache(self, stream: CachedDataStream) -> None:
        """Register a stream to be stored by the first job that uses it."""
        self._caches.add(stream)

    def register_sink(self, operator: OperatorTransformation, sink: Any) -> None:
        """Register the path of a sink; reject a second sink with the same path."""
        path = sink.output_path()
        if path is None:
            return
        if path in self._output_paths:
            raise InvalidProgramError(
                f"two sinks write to '{path}'",
                detail=f"the first one is '{self._output_paths[path].name}'",
                hint="use a different path for each sink, or union() the streams before one sink",
            )
        self._output_paths[path] = operator

    # Execution

    def execute(self, job_name: str | None = None) -> JobExecutionResult:
        """Run the program and wait until it is finished."""
        controller, client = self._submit(job_name)
        if hasattr(
            controller, "wait"
        ):  # an executor of this process turns Ctrl-C into a clean stop
            return controller.wait()  # type: ignore[no-any-return]
        return client.get_job_execution_result().result()

    def execute_async(self, job_name: str | None = None) -> JobClient:
        """Start the program and return a client of its job."""
        return self._submit(job_name)[1]

    def _submit(self, job_name: str | None) -> tuple[Any, JobClient]:
        executed(self._transformations)
        self._unexecuted.done()
        self._pin()
        validate(self._configuration)  # get_configuration() accepts any value
        settings = self._graph_settings(job_name)
        self._check_program()
        self._check_slot_resources()
        self._warn_without_sink(settings.job_name)
        filling = [cache for cache in self._caches if cache.write_down(self._transformations)]
        controller = executors.submit(
            tuple(self._transformations),
            settings,
            Configuration(self._configuration),
            settings.job_name,
        )
        self._transformations = []
        self._side_outputs = {}
        self._output_paths = {}
        client = JobClient(controller)
        for cache in filling:
            client.get_job_execution_result().add_done_callback(cache.on_finished)
        return controller, client

    def get_execution_plan(self) -> str:
        """Return the program as JSON, in the format of Flink's plan visualizer."""
        self._unexecuted.done()
        self._pin()
        self._check_program()
        plans = compile_program(self._transformations, self._graph_settings(None))
        return execution_plan_json(plans.stream_graph)

    def close(self) -> None:
        """Discard the program. Running jobs continue."""
        self._unexecuted.done()
        self._transformations = []
        self._side_outputs = {}
        self._output_paths = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _check_program(self) -> None:
        if not self._transformations:
            raise InvalidProgramError(
                "no operators defined",
                detail="there is nothing to execute in this environment",
                hint="read a source, transform it, and add a sink before execute()",
            )
        if self._configuration.get(options.AUTO_GENERATE_UIDS):
            return
        for step in self._transformations:
            if isinstance(step, OperatorTransformation) and not (step.uid or step.uid_hash):
                raise InvalidProgramError(
                    f"operator '{step.name}' has no uid",
                    detail="generated uids are disabled (pipeline.auto-generate-uids)",
                    hint="call uid(...) on the operator",
                )

    def _check_slot_resources(self) -> None:
        if not self._slot_sharing_groups:
            return
        from penstock.datastream._slot_resources import check_slot_resources

        steps = self._transformations
        used = {
            step.slot_sharing_group for step in steps if isinstance(step, OperatorTransformation)
        }
        groups = [group for name, group in self._slot_sharing_groups.items() if name in used]
        check_slot_resources(groups, self._configuration)

    def _warn_without_sink(self, job_name: str) -> None:
        """Log a warning if a job has no sink: functions may write themselves, but usually it was forgotten."""
        steps = self._transformations
        if not any(
            isinstance(step, OperatorTransformation) and step.kind == "sink" for step in steps
        ):
            _log.warning(
                "job '%s' has no sink: the output of its last operators is discarded (add sink_to(...) or print())",
                job_name,
            )

    def _graph_settings(self, job_name: str | None) -> GraphSettings:
        if job_name is not None:
            check_text(job_name, "job_name")
        return GraphSettings(
            job_name=job_name or self._configuration.get(options.JOB_NAME) or DEFAULT_JOB_NAME,
            parallelism=self.get_parallelism(),
            max_parallelism=self._configuration.get(options.MAX_PARALLELISM),
            chaining_enabled=self.is_chaining_enabled(),
            runtime_mode=self._configuration.get(options.RUNTIME_MODE),
        )
