"""All options that Penstock knows.

Options carry Flink's names where Flink has them. Those of Spark are passed on to it (`SPARK_PREFIX`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeVar

from penstock.common.config_options import ConfigOption, ConfigOptions
from penstock.common.config_values import OptionType
from penstock.common.configuration import Configuration
from penstock.common.python_dependencies import LOG_LEVELS
from penstock.common.time import Duration

T = TypeVar("T")

SPARK_PREFIX = "spark."

_registered: dict[str, ConfigOption[Any]] = {}
_key = ConfigOptions.key


def _option(
    option: ConfigOption[T], description: str, *deprecated: str, minimum: int | None = None
) -> ConfigOption[T]:
    option = replace(option, description=description, deprecated_keys=deprecated, minimum=minimum)
    _registered[option.key] = option
    return option


# The program

PARALLELISM = _option(
    _key("parallelism.default").int_type().no_default_value(),
    "Parallelism of operators that set none. Without it: the number of slots.",
    minimum=1,
)
MAX_PARALLELISM = _option(
    _key("pipeline.max-parallelism").int_type().no_default_value(),
    "Number of key groups, the upper bound of any parallelism. Without it: 128, or more for a large job.",
    minimum=1,
)
JOB_NAME = _option(
    _key("pipeline.name").string_type().no_default_value(),
    "Name of the job where execute() gives none.",
)
AUTO_WATERMARK_INTERVAL = _option(
    _key("pipeline.auto-watermark-interval").duration_type().default_value(Duration.of_millis(200)),
    "How often periodic watermarks are emitted; 0 turns them off.",
    minimum=0,
)
OPERATOR_CHAINING = _option(
    _key("pipeline.operator-chaining.enabled").boolean_type().default_value(True),
    "Whether operators are fused into chains.",
    "pipeline.operator-chaining",
)
OPERATOR_CHAINING_DIFFERENT_MAX = _option(
    _key("pipeline.operator-chaining.chain-operators-with-different-max-parallelism")
    .boolean_type()
    .default_value(True),
    "Whether operators with different maximum parallelism may be chained.",
)
GLOBAL_JOB_PARAMETERS = _option(
    _key("pipeline.global-job-parameters").map_type().default_value({}),
    "Parameters that user functions read from their runtime context.",
)
OBJECT_REUSE = _option(
    _key("pipeline.object-reuse").boolean_type().default_value(False),
    "Accepted: records are handed on as they are, always.",
)
AUTO_GENERATE_UIDS = _option(
    _key("pipeline.auto-generate-uids").boolean_type().default_value(True),
    "Whether operators without a uid get one from their place in the graph. False: they are refused.",
)
GENERIC_TYPES = _option(
    _key("pipeline.generic-types").boolean_type().default_value(True),
    "Accepted: records of any type are pickled.",
)
FORCE_AVRO = _option(
    _key("pipeline.force-avro").boolean_type().default_value(False), "Accepted without effect."
)
FORCE_KRYO = _option(
    _key("pipeline.force-kryo").boolean_type().default_value(False), "Accepted without effect."
)
CLOSURE_CLEANER_LEVEL = _option(
    _key("pipeline.closure-cleaner-level")
    .enum_type(["NONE", "TOP_LEVEL", "RECURSIVE"])
    .default_value("RECURSIVE"),
    "Accepted without effect.",
)
RUNTIME_MODE = _option(
    _key("execution.runtime-mode")
    .enum_type(["STREAMING", "BATCH", "AUTOMATIC"])
    .default_value("STREAMING"),
    "STREAMING, BATCH, or AUTOMATIC: BATCH if all sources are bounded.",
)
BUFFER_TIMEOUT = _option(
    _key("execution.buffer-timeout.interval")
    .duration_type()
    .default_value(Duration.of_millis(100)),
    "How long a record may wait in a buffer that is not full, in pipelined execution; 0: not at all, -1: until it is full.",
    "execution.buffer-timeout",
    minimum=-1,
)
BUFFER_TIMEOUT_ENABLED = _option(
    _key("execution.buffer-timeout.enabled").boolean_type().default_value(True),
    "Whether buffers that are not full are sent after a while.",
)
BUFFER_BYTES = _option(
    _key("taskmanager.memory.segment-size").memory_type().default_value(65_536),
    "Size at which a buffer between two operators is sent.",
    "penstock.buffer.bytes",
    minimum=1,
)
NETWORK_BUFFERS_PER_CHANNEL = _option(
    _key("taskmanager.network.memory.buffers-per-channel").int_type().default_value(2),
    "Buffers that may be under way in each channel from another slot, in pipelined execution.",
    minimum=0,
)
NETWORK_FLOATING_BUFFERS = _option(
    _key("taskmanager.network.memory.floating-buffers-per-gate").int_type().default_value(8),
    "Further buffers that may be under way, shared by the channels of an input.",
    minimum=0,
)
NETWORK_MEMORY_MAX = _option(
    _key("taskmanager.memory.network.max").memory_type().default_value(67_108_864),
    "What may be under way to one slot over all its channels; with many channels, each has less.",
    minimum=1,
)
TASK_SLOTS = _option(
    _key("taskmanager.numberOfTaskSlots").int_type().no_default_value(),
    "Slots of the local cluster. Without it: the cores of the machine.",
    minimum=1,
)
TASK_CANCELLATION_INTERVAL = _option(
    _key("task.cancellation.interval").duration_type().default_value(Duration.of_seconds(30)),
    "Accepted without effect.",
    minimum=0,
)
TASK_CANCELLATION_TIMEOUT = _option(
    _key("task.cancellation.timeout").duration_type().default_value(Duration.of_minutes(3)),
    "Accepted without effect.",
    minimum=0,
)
LATENCY_INTERVAL = _option(
    _key("metrics.latency.interval").duration_type().default_value(Duration.of_millis(0)),
    "How often sources send latency markers to the sinks, in pipelined execution; 0: never.",
)

# Checkpoints and savepoints

_CHECKPOINTING = "execution.checkpointing."
CHECKPOINT_INTERVAL = _option(
    _key(_CHECKPOINTING + "interval").duration_type().no_default_value(),
    "How often a checkpoint is taken. Without it: none are kept.",
    minimum=0,
)
CHECKPOINT_MODE = _option(
    _key(_CHECKPOINTING + "mode")
    .enum_type(["EXACTLY_ONCE", "AT_LEAST_ONCE"])
    .default_value("EXACTLY_ONCE"),
    "Accepted: processing is exactly once, always.",
)
CHECKPOINT_TIMEOUT = _option(
    _key(_CHECKPOINTING + "timeout").duration_type().default_value(Duration.of_minutes(10)),
    "After which time a checkpoint counts as failed.",
    minimum=1,
)
CHECKPOINT_MIN_PAUSE = _option(
    _key(_CHECKPOINTING + "min-pause").duration_type().default_value(Duration.of_millis(0)),
    "The least time from the end of a checkpoint to the start of the next.",
    minimum=0,
)
CHECKPOINT_MAX_CONCURRENT = _option(
    _key(_CHECKPOINTING + "max-concurrent-checkpoints").int_type().default_value(1),
    "Accepted: there is one checkpoint at a time.",
    minimum=1,
)
CHECKPOINT_TOLERABLE_FAILURES = _option(
    _key(_CHECKPOINTING + "tolerable-failed-checkpoints").int_type().default_value(0),
    "How many checkpoints in a row may fail before the job does.",
    minimum=0,
)
CHECKPOINT_RETENTION = _option(
    _key(_CHECKPOINTING + "externalized-checkpoint-retention")
    .enum_type(["DELETE_ON_CANCELLATION", "RETAIN_ON_CANCELLATION", "NO_EXTERNALIZED_CHECKPOINTS"])
    .default_value("NO_EXTERNALIZED_CHECKPOINTS"),
    "What becomes of the last checkpoint when the job is cancelled.",
)
CHECKPOINT_DIR = _option(
    _key(_CHECKPOINTING + "dir").string_type().no_default_value(),
    "Directory (path or URI) of checkpoints.",
    "state.checkpoints.dir",
)
SAVEPOINT_DIR = _option(
    _key(_CHECKPOINTING + "savepoint-dir").string_type().no_default_value(),
    "Directory (path or URI) of savepoints that are asked for without one.",
    "state.savepoints.dir",
)
CHECKPOINTS_RETAINED = _option(
    _key(_CHECKPOINTING + "num-retained").int_type().default_value(1),
    "How many completed checkpoints are kept.",
    "state.checkpoints.num-retained",
    minimum=1,
)
CHECKPOINT_STORAGE = _option(
    _key(_CHECKPOINTING + "storage").string_type().no_default_value(),
    "Accepted: checkpoints go to files.",
    "state.checkpoint-storage",
)
CHECKPOINT_INCREMENTAL = _option(
    _key(_CHECKPOINTING + "incremental").boolean_type().default_value(True),
    "Whether checkpoints of the rocksdb backend share files. The hashmap backend writes what changed, always.",
    "state.backend.incremental",
)
UNALIGNED = _option(
    _key(_CHECKPOINTING + "unaligned.enabled").boolean_type().default_value(False),
    "Whether barriers may overtake records, which are then part of the checkpoint. In pipelined jobs; epochs have nothing to overtake.",
    "execution.checkpointing.unaligned",
)
UNALIGNED_FORCED = _option(
    _key(_CHECKPOINTING + "unaligned.forced").boolean_type().default_value(False),
    "Accepted: there are no jobs, such as iterations, that could not do without.",
)
ALIGNED_TIMEOUT = _option(
    _key(_CHECKPOINTING + "aligned-checkpoint-timeout")
    .duration_type()
    .default_value(Duration.of_millis(0)),
    "How long after its trigger an unaligned checkpoint tries to be aligned: only then barriers overtake records. 0: they do at once.",
    "execution.checkpointing.alignment-timeout",
    minimum=0,
)
CHECKPOINTS_AFTER_FINISH = _option(
    _key(_CHECKPOINTING + "checkpoints-after-tasks-finish").boolean_type().default_value(True),
    "Accepted: a last checkpoint is taken when all sources have ended.",
    "execution.checkpointing.checkpoints-after-tasks-finish.enabled",
)
SNAPSHOT_COMPRESSION = _option(
    _key(_CHECKPOINTING + "snapshot-compression").boolean_type().default_value(False),
    "Whether snapshots are compressed.",
    "execution.checkpointing.snapshot-compression.enabled",
)
RECOVERY_PATH = _option(
    _key("execution.state-recovery.path").string_type().no_default_value(),
    "Savepoint or checkpoint that the job starts from.",
    "execution.savepoint.path",
)
RECOVERY_IGNORE_UNCLAIMED = _option(
    _key("execution.state-recovery.ignore-unclaimed-state").boolean_type().default_value(False),
    "Whether state of operators that the job no longer has is left out.",
    "execution.savepoint.ignore-unclaimed-state",
)
RECOVERY_CLAIM_MODE = _option(
    _key("execution.state-recovery.claim-mode")
    .enum_type(["NO_CLAIM", "CLAIM", "LEGACY"])
    .default_value("NO_CLAIM"),
    "Whether the job takes over, and in time deletes, the snapshot that it starts from.",
    "execution.savepoint-restore-mode",
)
STATE_BACKEND = _option(
    _key("state.backend.type").enum_type(["hashmap", "rocksdb"]).default_value("hashmap"),
    "Where keyed state lives: as Python objects, or in RocksDB.",
    "state.backend",
)

# The rocksdb backend

_ROCKSDB = "state.backend.rocksdb."
ROCKSDB_LOCAL_DIR = _option(
    _key(_ROCKSDB + "localdir").string_type().no_default_value(),
    "Local directories of databases, separated by commas. Without it: Spark's local directories.",
    "state.backend.rocksdb.checkpointdir",
)
ROCKSDB_PREDEFINED = _option(
    _key(_ROCKSDB + "predefined-options")
    .enum_type(
        [
            "DEFAULT",
            "SPINNING_DISK_OPTIMIZED",
            "SPINNING_DISK_OPTIMIZED_HIGH_MEM",
            "FLASH_SSD_OPTIMIZED",
        ]
    )
    .default_value("DEFAULT"),
    "Defaults of the other options of this backend for a kind of disk. What is set by itself counts.",
)
ROCKSDB_BLOCK_CACHE_SIZE = _option(
    _key(_ROCKSDB + "block.cache-size").memory_type().default_value(64 * 1024 * 1024),
    "Memory for what was read, shared by all databases of a worker process.",
    minimum=0,
)
ROCKSDB_BLOCK_SIZE = _option(
    _key(_ROCKSDB + "block.blocksize").memory_type().default_value(4096),
    "Size of the blocks that are read at a time.",
    minimum=1,
)
ROCKSDB_WRITE_BUFFER_SIZE = _option(
    _key(_ROCKSDB + "writebuffer.size").memory_type().default_value(64 * 1024 * 1024),
    "Memory for what was written and is not in a file yet, per database.",
    minimum=1,
)
ROCKSDB_WRITE_BUFFER_COUNT = _option(
    _key(_ROCKSDB + "writebuffer.count").int_type().default_value(2),
    "How many such write buffers there may be.",
    minimum=1,
)
ROCKSDB_OPEN_FILES = _option(
    _key(_ROCKSDB + "files.open").int_type().default_value(-1),
    "How many files a database keeps open; -1: all.",
    minimum=-1,
)
ROCKSDB_THREADS = _option(
    _key(_ROCKSDB + "thread.num").int_type().default_value(2),
    "Threads that write and merge files in the background.",
    minimum=1,
)
ROCKSDB_COMPACTION_STYLE = _option(
    _key(_ROCKSDB + "compaction.style")
    .enum_type(["UNIVERSAL", "LEVEL"])
    .default_value("UNIVERSAL"),
    "How files are merged. UNIVERSAL rewrites less, so checkpoints write less.",
)
ROCKSDB_BLOOM_FILTER = _option(
    _key(_ROCKSDB + "use-bloom-filter").boolean_type().default_value(True),
    "Whether files have filters that tell which keys they do not hold.",
)
ROCKSDB_PARTITIONED = _option(
    _key(_ROCKSDB + "memory.partitioned-index-filters").boolean_type().default_value(True),
    "Whether indexes and filters are read in parts, so that little cache serves much state.",
)
ROCKSDB_TRANSFER_THREADS = _option(
    _key(_ROCKSDB + "checkpoint.transfer.thread.num").int_type().default_value(4),
    "How many files are moved to and from checkpoint storage at a time.",
    minimum=1,
)

# Restarts

_RESTART_TYPES = ("none", "off", "disable", "fixed-delay", "fixeddelay", "exponential-delay")
RESTART_TYPE = _option(
    _key("restart-strategy.type")
    .enum_type([*_RESTART_TYPES, "exponentialdelay", "failure-rate", "failurerate"])
    .no_default_value(),
    "Restart strategy. Without it: exponential-delay with checkpointing, none without.",
    "restart-strategy",
)
FIXED_DELAY_ATTEMPTS = _option(
    _key("restart-strategy.fixed-delay.attempts").int_type().default_value(1),
    "How often the job is restarted before it fails for good.",
    minimum=0,
)
FIXED_DELAY_DELAY = _option(
    _key("restart-strategy.fixed-delay.delay")
    .duration_type()
    .default_value(Duration.of_seconds(1)),
    "The wait before a restart.",
    minimum=0,
)
FAILURE_RATE_MAX = _option(
    _key("restart-strategy.failure-rate.max-failures-per-interval").int_type().default_value(1),
    "How many failures within the interval are endured.",
    minimum=0,
)
FAILURE_RATE_INTERVAL = _option(
    _key("restart-strategy.failure-rate.failure-rate-interval")
    .duration_type()
    .default_value(Duration.of_minutes(1)),
    "The interval that failures are counted in.",
    minimum=1,
)
FAILURE_RATE_DELAY = _option(
    _key("restart-strategy.failure-rate.delay")
    .duration_type()
    .default_value(Duration.of_seconds(1)),
    "The wait before a restart.",
    minimum=0,
)
_EXPONENTIAL = "restart-strategy.exponential-delay."
EXPONENTIAL_INITIAL = _option(
    _key(_EXPONENTIAL + "initial-backoff").duration_type().default_value(Duration.of_seconds(1)),
    "The wait before the first restart.",
    minimum=1,
)
EXPONENTIAL_MAX = _option(
    _key(_EXPONENTIAL + "max-backoff").duration_type().default_value(Duration.of_minutes(1)),
    "The longest wait before a restart.",
    minimum=1,
)
EXPONENTIAL_MULTIPLIER = _option(
    _key(_EXPONENTIAL + "backoff-multiplier").double_type().default_value(1.5),
    "By what the wait grows from failure to failure.",
    minimum=1,
)
EXPONENTIAL_RESET = _option(
    _key(_EXPONENTIAL + "reset-backoff-threshold")
    .duration_type()
    .default_value(Duration.of_hours(1)),
    "How long a job must run without failure for the wait to begin anew.",
    minimum=1,
)
EXPONENTIAL_JITTER = _option(
    _key(_EXPONENTIAL + "jitter-factor").double_type().default_value(0.1),
    "What share of the wait is random.",
    minimum=0,
)
EXPONENTIAL_ATTEMPTS = _option(
    _key(_EXPONENTIAL + "attempts-before-reset-backoff").int_type().no_default_value(),
    "How many failures in a row are endured. Without it: any number.",
    minimum=1,
)

# The autoscaler

_AUTOSCALER = "job.autoscaler."
AUTOSCALER_ENABLED = _option(
    _key(_AUTOSCALER + "enabled").boolean_type().default_value(False),
    "Whether the job's parallelism follows its load.",
)
AUTOSCALER_SCALING_ENABLED = _option(
    _key(_AUTOSCALER + "scaling.enabled").boolean_type().default_value(True),
    "Whether the autoscaler's decisions are carried out. False: they are only logged.",
)
AUTOSCALER_MIN_PARALLELISM = _option(
    _key(_AUTOSCALER + "vertex.min-parallelism").int_type().default_value(1),
    "The lowest parallelism that the autoscaler chooses.",
    minimum=1,
)
AUTOSCALER_MAX_PARALLELISM = _option(
    _key(_AUTOSCALER + "vertex.max-parallelism").int_type().default_value(200),
    "The highest parallelism that the autoscaler chooses; the operators' max parallelism is a limit too.",
    minimum=1,
)
AUTOSCALER_TARGET = _option(
    _key(_AUTOSCALER + "utilization.target").double_type().default_value(0.7),
    "What part of its capacity a rescaled job should use.",
    "job.autoscaler.target.utilization",
)
AUTOSCALER_MAX_UTILIZATION = _option(
    _key(_AUTOSCALER + "utilization.max").double_type().no_default_value(),
    "Above what part of its capacity a job is scaled up. Without it: midway between the target and 1.",
)
AUTOSCALER_MIN_UTILIZATION = _option(
    _key(_AUTOSCALER + "utilization.min").double_type().no_default_value(),
    "Below what part of its capacity a job may be scaled down. Without it: 0.3 less than the target.",
)
AUTOSCALER_STABILIZATION = _option(
    _key(_AUTOSCALER + "stabilization.interval")
    .duration_type()
    .default_value(Duration.of_minutes(5)),
    "How long nothing is changed after a change.",
    minimum=0,
)
AUTOSCALER_WINDOW = _option(
    _key(_AUTOSCALER + "metrics.window").duration_type().default_value(Duration.of_minutes(15)),
    "The time over which load and capacity are averaged.",
    minimum=1,
)
AUTOSCALER_CATCH_UP = _option(
    _key(_AUTOSCALER + "catch-up.duration").duration_type().default_value(Duration.of_minutes(30)),
    "How long working off a backlog may take; 0: backlogs do not count.",
    minimum=0,
)
AUTOSCALER_SCALE_DOWN_INTERVAL = _option(
    _key(_AUTOSCALER + "scale-down.interval").duration_type().default_value(Duration.of_hours(1)),
    "How long a job must have had little to do before it is scaled down.",
    minimum=0,
)
AUTOSCALER_SCALE_DOWN_FACTOR = _option(
    _key(_AUTOSCALER + "scale-down.max-factor").double_type().default_value(0.6),
    "What part of the parallelism one change may take away at most.",
    minimum=0,
)
AUTOSCALER_SCALE_UP_FACTOR = _option(
    _key(_AUTOSCALER + "scale-up.max-factor").double_type().default_value(100_000.0),
    "What multiple of the parallelism one change may add at most.",
    minimum=0,
)
AUTOSCALER_EFFECTIVENESS = _option(
    _key(_AUTOSCALER + "scaling.effectiveness.detection.enabled")
    .boolean_type()
    .default_value(True),
    "Whether a job that got no faster by the last increase is not scaled up further.",
)
AUTOSCALER_EFFECTIVENESS_THRESHOLD = _option(
    _key(_AUTOSCALER + "scaling.effectiveness.threshold").double_type().default_value(0.1),
    "What part of the expected gain in capacity an increase must have brought.",
    minimum=0,
)

# The REST server

REST_ADDRESS = _option(
    _key("rest.address").string_type().no_default_value(),
    "Address that clients connect to. Without it: the address that the server listens on.",
)
REST_PORT = _option(
    _key("rest.port").int_type().default_value(0),
    "Port that the server listens on; 0: any that is free, which `penstock list` shows.",
    minimum=0,
)
REST_BIND_ADDRESS = _option(
    _key("rest.bind-address").string_type().default_value("127.0.0.1"),
    "Address that the server listens on. Elsewhere than on loopback every request needs the token.",
)
REST_BIND_PORT = _option(
    _key("rest.bind-port").string_type().no_default_value(),
    "Port, or range of ports such as 8081-8090, that the server listens on. Without it: rest.port.",
)

# Penstock's own

EXECUTION_MODE = _option(
    _key("penstock.execution.mode")
    .enum_type(["auto", "pipelined", "epochs"])
    .default_value("auto"),
    "How a job runs: pipelined, as tasks that stay and pass records on at once, or in epochs, one Spark job after another. auto: "
    "pipelined if a source is unbounded and Spark has a core for each slot.",
)
EPOCH_INTERVAL = _option(
    _key("penstock.epoch.interval").duration_type().default_value(Duration.of_seconds(1)),
    "Length of an epoch of an unbounded job without checkpointing.",
    minimum=1,
)
PROGRESS = _option(
    _key("penstock.progress").enum_type(["auto", "always", "never"]).default_value("auto"),
    "Whether a running job shows its progress: auto, in a terminal.",
)
REST_ENABLED = _option(
    _key("penstock.rest.enabled").boolean_type().default_value(True),
    "Whether the command line and the REST API reach the job.",
)
REPLAY_JOURNAL = _option(
    _key("penstock.replay.journal").boolean_type().default_value(True),
    "Whether a job with a checkpoint directory writes down what `penstock replay` needs.",
)
LOG_DIR = _option(
    _key("penstock.log.dir").string_type().no_default_value(), "Directory of log files."
)
JOB_ID = _option(
    _key("penstock.job-id").string_type().no_default_value(),
    "Id of the job, 32 hexadecimal digits: started again with the same execution.checkpointing.dir, it goes on from its last "
    "checkpoint; the first time it starts from nothing.",
)
RECOVERY_ALLOW_FALLBACK = _option(
    _key("penstock.recovery.allow-fallback").boolean_type().default_value(False),
    "Whether a job whose last checkpoint is damaged or gone goes back to one before it, and publishes output again.",
)
SIGNING_KEY = _option(
    _key("penstock.signing.key").string_type().no_default_value(),
    "Key that signs checkpoints and savepoints; what is not signed with it is not restored.",
)
SIGNING_KEY_FILE = _option(
    _key("penstock.signing.key-file").string_type().no_default_value(),
    "File with the key that signs checkpoints and savepoints.",
)
STATE_INLINE_THRESHOLD = _option(
    _key("penstock.state.inline-threshold").memory_type().default_value(20480),
    "Snapshots up to this size are kept in the manifest instead of in files of their own.",
    "execution.checkpointing.data-inline-threshold",
    "state.storage.fs.memory-threshold",
)
STATE_SPILL_ENTRIES = _option(
    _key("penstock.state.spill-entries").int_type().default_value(100_000),
    "Entries that an operator keeps as objects before it writes them to its database, within an epoch.",
    minimum=1,
)
DEBUG_CHECK_ORDER = _option(
    _key("penstock.debug.check-order").boolean_type().default_value(False),
    "Whether every channel's buffers are checked to arrive in order.",
)

# Options that PyFlink programs set; Python runs inside Spark's own workers here

PYTHON_LOG_LEVEL = _option(
    _key("python.logging.default.level").enum_type(LOG_LEVELS).no_default_value(),
    "Level of all loggers in tasks.",
)
PYTHON_LOG_OVERRIDES = _option(
    _key("python.logging.level.overrides").map_type().default_value({}),
    "Levels of single loggers in tasks, by their names: 'my.module:DEBUG'.",
)
PYTHON_FILES = _option(
    _key("python.files").string_type().default_value(""),
    "Python files, archives and folders that tasks import, separated by commas.",
)

_PYTHON: tuple[tuple[str, OptionType], ...] = (
    ("python.archives", OptionType.STRING),
    ("python.client.executable", OptionType.STRING),
    ("python.executable", OptionType.STRING),
    ("python.execution-mode", OptionType.STRING),
    ("python.fn-execution.arrow.batch.size", OptionType.INT),
    ("python.fn-execution.buffer.memory.size", OptionType.MEMORY),
    ("python.fn-execution.bundle.size", OptionType.INT),
    ("python.fn-execution.bundle.time", OptionType.LONG),
    ("python.fn-execution.framework.memory.size", OptionType.MEMORY),
    ("python.fn-execution.memory.managed", OptionType.BOOLEAN),
    ("python.job-options", OptionType.MAP),
    ("python.map-state.iterate-response-batch-size", OptionType.INT),
    ("python.map-state.read-cache-size", OptionType.INT),
    ("python.map-state.write-cache-size", OptionType.INT),
    ("python.metric.enabled", OptionType.BOOLEAN),
    ("python.operator-chaining.enabled", OptionType.BOOLEAN),
    ("python.profile.enabled", OptionType.BOOLEAN),
    ("python.pythonpath", OptionType.STRING),
    ("python.requirements", OptionType.STRING),
    ("python.state.cache-size", OptionType.INT),
    ("python.systemenv.enabled", OptionType.BOOLEAN),
)
for _name, _kind in _PYTHON:
    _option(ConfigOption(_name, _kind), "Accepted, as PyFlink programs set it.")

OPTIONS: dict[str, ConfigOption[Any]] = dict(_registered)


def spark_options(configuration: Configuration) -> dict[str, str]:
    """Return the options that are passed on to Spark."""
    return {
        key: value for key, value in configuration.to_dict().items() if key.startswith(SPARK_PREFIX)
    }
