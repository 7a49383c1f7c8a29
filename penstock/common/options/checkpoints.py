"""Options of checkpoints, savepoints and state backends."""

from __future__ import annotations

from penstock.common.config_options import ConfigOptions
from penstock.common.options.registry import describe
from penstock.common.time import Duration

# Checkpoints and savepoints

_CHECKPOINTING = "execution.checkpointing."
CHECKPOINT_INTERVAL = describe(
    ConfigOptions.key(_CHECKPOINTING + "interval").duration_type().no_default_value(),
    "How often a checkpoint is taken. Without it: none are kept.",
    minimum=0,
)
CHECKPOINT_MODE = describe(
    ConfigOptions.key(_CHECKPOINTING + "mode")
    .enum_type(["EXACTLY_ONCE", "AT_LEAST_ONCE"])
    .default_value("EXACTLY_ONCE"),
    "Whether a pipelined job holds back what came after a barrier (EXACTLY_ONCE). Epochs are exactly once, always.",
)
CHECKPOINT_TIMEOUT = describe(
    ConfigOptions.key(_CHECKPOINTING + "timeout")
    .duration_type()
    .default_value(Duration.of_minutes(10)),
    "After which time a checkpoint counts as failed.",
    minimum=1,
)
CHECKPOINT_MIN_PAUSE = describe(
    ConfigOptions.key(_CHECKPOINTING + "min-pause")
    .duration_type()
    .default_value(Duration.of_millis(0)),
    "The least time from the end of a checkpoint to the start of the next.",
    minimum=0,
)
CHECKPOINT_MAX_CONCURRENT = describe(
    ConfigOptions.key(_CHECKPOINTING + "max-concurrent-checkpoints").int_type().default_value(1),
    "How many checkpoints of a pipelined job may be under way. In epochs there is one at a time.",
    minimum=1,
)
CHECKPOINT_TOLERABLE_FAILURES = describe(
    ConfigOptions.key(_CHECKPOINTING + "tolerable-failed-checkpoints").int_type().default_value(0),
    "How many checkpoints in a row may fail before the job does.",
    minimum=0,
)
CHECKPOINT_RETENTION = describe(
    ConfigOptions.key(_CHECKPOINTING + "externalized-checkpoint-retention")
    .enum_type(["DELETE_ON_CANCELLATION", "RETAIN_ON_CANCELLATION", "NO_EXTERNALIZED_CHECKPOINTS"])
    .default_value("NO_EXTERNALIZED_CHECKPOINTS"),
    "What becomes of the last checkpoint when the job is cancelled.",
)
CHECKPOINT_DIR = describe(
    ConfigOptions.key(_CHECKPOINTING + "dir").string_type().no_default_value(),
    "Directory (path or URI) of checkpoints.",
    "state.checkpoints.dir",
    "state.backend.fs.checkpointdir",
)
SAVEPOINT_DIR = describe(
    ConfigOptions.key(_CHECKPOINTING + "savepoint-dir").string_type().no_default_value(),
    "Directory (path or URI) of savepoints that are asked for without one.",
    "state.savepoints.dir",
    "savepoints.state.backend.fs.dir",
)
CHECKPOINTS_RETAINED = describe(
    ConfigOptions.key(_CHECKPOINTING + "num-retained").int_type().default_value(1),
    "How many completed checkpoints are kept.",
    "state.checkpoints.num-retained",
    minimum=1,
)
CHECKPOINT_HISTORY = describe(
    ConfigOptions.key("web.checkpoints.history").int_type().default_value(10),
    "Of how many checkpoints the REST API and the web page show the figures.",
    "jobmanager.web.checkpoints.history",
    minimum=1,
)
CHECKPOINT_INCREMENTAL = describe(
    ConfigOptions.key(_CHECKPOINTING + "incremental").boolean_type().default_value(True),
    "Whether checkpoints of the rocksdb backend share files. The hashmap backend writes what changed, always.",
    "state.backend.incremental",
)
UNALIGNED = describe(
    ConfigOptions.key(_CHECKPOINTING + "unaligned.enabled").boolean_type().default_value(False),
    "Whether barriers may overtake records, which are then part of the checkpoint. In pipelined jobs; epochs have nothing to overtake.",
    "execution.checkpointing.unaligned",
)
UNALIGNED_FORCED = describe(
    ConfigOptions.key(_CHECKPOINTING + "unaligned.forced").boolean_type().default_value(False),
    "Whether jobs are unaligned that Flink would leave aligned. Every job may be unaligned, so there is nothing to force.",
)
ALIGNED_TIMEOUT = describe(
    ConfigOptions.key(_CHECKPOINTING + "aligned-checkpoint-timeout")
    .duration_type()
    .default_value(Duration.of_millis(0)),
    "How long after its trigger an unaligned checkpoint tries to be aligned: only then barriers overtake records. 0: they do at once.",
    "execution.checkpointing.alignment-timeout",
    minimum=0,
)
SNAPSHOT_COMPRESSION = describe(
    ConfigOptions.key(_CHECKPOINTING + "snapshot-compression").boolean_type().default_value(False),
    "Whether snapshots are compressed. They are not.",
    "execution.checkpointing.snapshot-compression.enabled",
)
STATE_INLINE_THRESHOLD = describe(
    ConfigOptions.key("execution.checkpointing.data-inline-threshold")
    .memory_type()
    .default_value(20480),
    "Snapshots up to this size are kept in the manifest instead of in files of their own.",
    "penstock.state.inline-threshold",
    "state.storage.fs.memory-threshold",
    "state.backend.fs.memory-threshold",
)
RECOVERY_PATH = describe(
    ConfigOptions.key("execution.state-recovery.path").string_type().no_default_value(),
    "Savepoint or checkpoint that the job starts from.",
    "execution.savepoint.path",
)
RECOVERY_IGNORE_UNCLAIMED = describe(
    ConfigOptions.key("execution.state-recovery.ignore-unclaimed-state")
    .boolean_type()
    .default_value(False),
    "Whether state of operators that the job no longer has is left out.",
    "execution.savepoint.ignore-unclaimed-state",
)
RECOVERY_CLAIM_MODE = describe(
    ConfigOptions.key("execution.state-recovery.claim-mode")
    .enum_type(["NO_CLAIM", "CLAIM", "LEGACY"])
    .default_value("NO_CLAIM"),
    "Whether the job takes over, and in time deletes, the snapshot that it starts from. LEGACY is NO_CLAIM.",
    "execution.savepoint-restore-mode",
)
STATE_BACKEND = describe(
    ConfigOptions.key("state.backend.type")
    .enum_type(["hashmap", "rocksdb"])
    .default_value("hashmap"),
    "Where keyed state lives: as Python objects, or in RocksDB.",
    "state.backend",
)

# The rocksdb backend

_ROCKSDB = "state.backend.rocksdb."
ROCKSDB_LOCAL_DIR = describe(
    ConfigOptions.key(_ROCKSDB + "localdir").string_type().no_default_value(),
    "Local directories of databases, separated by commas. Without it: Spark's local directories.",
    "state.backend.rocksdb.checkpointdir",
)
ROCKSDB_PREDEFINED = describe(
    ConfigOptions.key(_ROCKSDB + "predefined-options")
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
ROCKSDB_BLOCK_CACHE_SIZE = describe(
    ConfigOptions.key(_ROCKSDB + "block.cache-size").memory_type().default_value(64 * 1024 * 1024),
    "Memory for what was read, shared by all databases of a worker process.",
    minimum=0,
)
ROCKSDB_BLOCK_SIZE = describe(
    ConfigOptions.key(_ROCKSDB + "block.blocksize").memory_type().default_value(4096),
    "Size of the blocks that are read at a time.",
    minimum=1,
)
ROCKSDB_WRITE_BUFFER_SIZE = describe(
    ConfigOptions.key(_ROCKSDB + "writebuffer.size").memory_type().default_value(64 * 1024 * 1024),
    "Memory for what was written and is not in a file yet, per database.",
    minimum=1,
)
ROCKSDB_WRITE_BUFFER_COUNT = describe(
    ConfigOptions.key(_ROCKSDB + "writebuffer.count").int_type().default_value(2),
    "How many such write buffers there may be.",
    minimum=1,
)
ROCKSDB_OPEN_FILES = describe(
    ConfigOptions.key(_ROCKSDB + "files.open").int_type().default_value(-1),
    "How many files a database keeps open; -1: all.",
    minimum=-1,
)
ROCKSDB_THREADS = describe(
    ConfigOptions.key(_ROCKSDB + "thread.num").int_type().default_value(2),
    "Threads that write and merge files in the background.",
    minimum=1,
)
ROCKSDB_COMPACTION_STYLE = describe(
    ConfigOptions.key(_ROCKSDB + "compaction.style")
    .enum_type(["UNIVERSAL", "LEVEL"])
    .default_value("UNIVERSAL"),
    "How files are merged. UNIVERSAL rewrites less, so checkpoints write less.",
)
ROCKSDB_BLOOM_FILTER = describe(
    ConfigOptions.key(_ROCKSDB + "use-bloom-filter").boolean_type().default_value(True),
    "Whether files have filters that tell which keys they do not hold.",
)
ROCKSDB_PARTITIONED = describe(
    ConfigOptions.key(_ROCKSDB + "memory.partitioned-index-filters")
    .boolean_type()
    .default_value(True),
    "Whether indexes and filters are read in parts, so that little cache serves much state.",
)
ROCKSDB_TRANSFER_THREADS = describe(
    ConfigOptions.key(_ROCKSDB + "checkpoint.transfer.thread.num").int_type().default_value(4),
    "How many files are moved to and from checkpoint storage at a time.",
    minimum=1,
)
