"""Options of programs: parallelism, time, network buffers."""

from __future__ import annotations

from penstock.options.config_options import ConfigOptions
from penstock.options.registry import describe
from penstock.time.durations import Duration

PARALLELISM = describe(
    ConfigOptions.key("parallelism.default").int_type().no_default_value(),
    "Default parallelism of operators. Default: the number of slots.",
    minimum=1,
)
MAX_PARALLELISM = describe(
    ConfigOptions.key("pipeline.max-parallelism").int_type().no_default_value(),
    "Number of key groups, the upper bound of any parallelism. Default: 128, or more for a large job.",
    minimum=1,
)
JOB_NAME = describe(
    ConfigOptions.key("pipeline.name").string_type().no_default_value(),
    "Name of the job if execute() has none.",
)
AUTO_WATERMARK_INTERVAL = describe(
    ConfigOptions.key("pipeline.auto-watermark-interval")
    .duration_type()
    .default_value(Duration.of_millis(200)),
    "How often periodic watermarks are emitted; 0 turns them off.",
    minimum=0,
)
OPERATOR_CHAINING = describe(
    ConfigOptions.key("pipeline.operator-chaining.enabled").boolean_type().default_value(True),
    "Whether operators are fused into chains.",
    "pipeline.operator-chaining",
)
OPERATOR_CHAINING_DIFFERENT_MAX = describe(
    ConfigOptions.key("pipeline.operator-chaining.chain-operators-with-different-max-parallelism")
    .boolean_type()
    .default_value(True),
    "Whether operators with different maximum parallelism may be chained.",
)
GLOBAL_JOB_PARAMETERS = describe(
    ConfigOptions.key("pipeline.global-job-parameters").map_type().default_value({}),
    "Parameters that user functions read from their runtime context.",
)
OBJECT_REUSE = describe(
    ConfigOptions.key("pipeline.object-reuse").boolean_type().default_value(False),
    "Whether records are passed on without a copy. Always true.",
)
AUTO_GENERATE_UIDS = describe(
    ConfigOptions.key("pipeline.auto-generate-uids").boolean_type().default_value(True),
    "Whether operators without a uid get one from their position in the graph. False: they are rejected.",
)
GENERIC_TYPES = describe(
    ConfigOptions.key("pipeline.generic-types").boolean_type().default_value(True),
    "Whether types without a serializer are allowed. They always are, and are pickled.",
)
FORCE_AVRO = describe(
    ConfigOptions.key("pipeline.force-avro").boolean_type().default_value(False),
    "Whether POJOs are written as Avro. Records are pickled.",
)
FORCE_KRYO = describe(
    ConfigOptions.key("pipeline.force-kryo").boolean_type().default_value(False),
    "Whether POJOs are written by Kryo. Records are pickled.",
)
CLOSURE_CLEANER_LEVEL = describe(
    ConfigOptions.key("pipeline.closure-cleaner-level")
    .enum_type(["NONE", "TOP_LEVEL", "RECURSIVE"])
    .default_value("RECURSIVE"),
    "How far Java's closures are cleaned. Functions are pickled.",
)
RUNTIME_MODE = describe(
    ConfigOptions.key("execution.runtime-mode")
    .enum_type(["STREAMING", "BATCH", "AUTOMATIC"])
    .default_value("STREAMING"),
    "STREAMING, BATCH, or AUTOMATIC: BATCH if all sources are bounded.",
)
BUFFER_TIMEOUT = describe(
    ConfigOptions.key("execution.buffer-timeout.interval")
    .duration_type()
    .default_value(Duration.of_millis(100)),
    "How long a record may wait in a buffer that is not full, in pipelined mode; 0: not at all, -1: until it is full.",
    "execution.buffer-timeout",
    minimum=-1,
)
BUFFER_TIMEOUT_ENABLED = describe(
    ConfigOptions.key("execution.buffer-timeout.enabled").boolean_type().default_value(True),
    "Whether buffers that are not full are sent after a while.",
)
BUFFER_BYTES = describe(
    ConfigOptions.key("taskmanager.memory.segment-size").memory_type().default_value(65_536),
    "Size at which a buffer between two operators is sent.",
    "penstock.buffer.bytes",
    minimum=1,
)
NETWORK_BUFFERS_PER_CHANNEL = describe(
    ConfigOptions.key("taskmanager.network.memory.buffers-per-channel").int_type().default_value(2),
    "Exclusive in-flight buffers of each channel from another slot, in pipelined mode.",
    minimum=0,
)
NETWORK_FLOATING_BUFFERS = describe(
    ConfigOptions.key("taskmanager.network.memory.floating-buffers-per-gate")
    .int_type()
    .default_value(8),
    "Floating in-flight buffers, shared by the channels of an input.",
    minimum=0,
)
NETWORK_MEMORY_MAX = describe(
    ConfigOptions.key("taskmanager.memory.network.max").memory_type().default_value(67_108_864),
    "In-flight data of one slot over all its channels; with many channels, each gets less.",
    "taskmanager.network.memory.max",
    minimum=1,
)
TASK_SLOTS = describe(
    ConfigOptions.key("taskmanager.numberOfTaskSlots").int_type().no_default_value(),
    "Slots of a TaskManager: cores of a Spark executor if spark.executor.cores is not set, or slots of a session without Spark. "
    "Default: Spark's, or the cores of the machine.",
    minimum=1,
)
TASK_CANCELLATION_INTERVAL = describe(
    ConfigOptions.key("task.cancellation.interval")
    .duration_type()
    .default_value(Duration.of_seconds(30)),
    "Interval between attempts to cancel a task. See spark.python.task.killTimeout.",
    "task.cancellation-interval",
    minimum=0,
)
TASK_CANCELLATION_TIMEOUT = describe(
    ConfigOptions.key("task.cancellation.timeout")
    .duration_type()
    .default_value(Duration.of_minutes(3)),
    "Time after which a task that does not end is a fatal error. See spark.python.task.killTimeout.",
    minimum=0,
)
LATENCY_INTERVAL = describe(
    ConfigOptions.key("metrics.latency.interval")
    .duration_type()
    .default_value(Duration.of_millis(0)),
    "How often sources send latency markers to the sinks, in pipelined mode; 0: never.",
)
