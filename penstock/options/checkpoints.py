"""Options of checkpoints, savepoints and state backends."""

from __future__ import annotations

from penstock.options.config_options import ConfigOptions
from penstock.options.registry import describe
from penstock.time.durations import Duration

# Checkpoints and savepoints

_CHECKPOINTING = "execution.checkpointing."
CHECKPOINT_INTERVAL = describe(
    ConfigOptions.key(_CHECKPOINTING + "interval").duration_type().no_default_value(),
    "Checkpoint interval. Default: checkpointing is disabled.",
    minimum=0,
)
CHECKPOINT_MODE = describe(
    ConfigOptions.key(_CHECKPOINTING + "mode")
    .enum_type(["EXACTLY_ONCE", "AT_LEAST_ONCE"])
    .default_value("EXACTLY_ONCE"),
    "Whether barrier alignment is used in pipelined mode (EXACTLY_ONCE). Epoch mode is always exactly once.",
)
CHECKPOINT_TIMEOUT = describe(
    ConfigOptions.key(_CHECKPOINTING + "timeout")
    .duration_type()
    .default_value(Duration.of_minutes(10)),
    "Time after which a checkpoint expires.",
    minimum=1,
)
CHECKPOINT_MIN_PAUSE = describe(
    ConfigOptions.key(_CHECKPOINTING + "min-pause")
    .duration_type()
    .default_value(Duration.of_millis(0)),
    "Minimum pause between the end of a checkpoint and the start of the next.",
    minimum=0,
)
CHECKPOINT_MAX_CONCURRENT = describe(
    ConfigOptions.key(_CHECKPOINTING + "max-concurrent-checkpoints").int_type().default_value(1),
    "Maximum number of concurrent checkpoints in pipelined mode. In epoch mode there is one at a time.",
    minimum=1,
)
CHECKPOINT_TOLERABLE_FAILURES = describe(
    ConfigOptions.key(_CHECKPOINTING + "tolerable-failed-checkpoints").int_type().default_value(0),
    "How many checkpoints in a row may fail before the job fails.",
    minimum=0,
)
CHECKPOINT_RETENTION = describe(
    ConfigOptions.key(_CHECKPOINTING + "externalized-checkpoint-retention")
    .enum_type(["DELETE_ON_CANCELLATION", "RETAIN_ON_CANCELLATION", "NO_EXTERNALIZED_CHECKPOINTS"])
    .default_value("NO_EXTERNALIZED_CHECKPOINTS"),
    "What happens to the last checkpoint when the job is cancelled.",
)
CHECKPOINT_DIR = describe(
    ConfigOptions.key(_CHECKPOINTING + "dir").string_type().no_default_value(),
    "Directory (path or URI) of checkpoints.",
    "state.checkpoints.dir",
    "state.backend.fs.checkpointdir",
)
SAVEPOINT_DIR = describe(
    ConfigOptions.key(_CHECKPOINTING + "savepoint-dir").string_type().no_default_value(),
    "Default directory (path or URI) of savepoints.",
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
    "Number of checkpoints in the history of the REST API and the web page.",
    "jobmanager.web.checkpoints.history",
    minimum=1,
)
CHECKPOINT_INCREMENTAL = describe(
    ConfigOptions.key(_CHECKPOINTING + "incremental").boolean_type().default_value(True),
    "Whether checkpoints of the rocksdb backend share files. The hashmap backend always writes only changes.",
    "state.backend.incremental",
)
UNALIGNED = describe(
    ConfigOptions.key(_CHECKPOINTING + "unaligned.enabled").boolean_type().default_value(False),
    "Whether checkpoints are unaligned: barriers overtake in-flight records, which become part of the checkpoint. In pipelined mode only.",
    "execution.checkpointing.unaligned",
)
UNALIGNED_FORCED = describe(
    ConfigOptions.key(_CHECKPOINTING + "unaligned.forced").boolean_type().default_value(False),
    "Whether checkpoints are unaligned where Flink does not support it. Every job may use them here, so it has no effect.",
)
ALIGNED_TIMEOUT = describe(
    ConfigOptions.key(_CHECKPOINTING + "aligned-checkpoint-timeout")
    .duration_type()
    .default_value(Duration.of_millis(0)),
    "How long barrier alignment is tried before a checkpoint becomes unaligned; 0: it is unaligned at once.",
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
    "Snapshots up to this size are stored in the manifest instead of separate files.",
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
    "Whether state of operators that the job no longer has is skipped.",
    "execution.savepoint.ignore-unclaimed-state",
)
RECOVERY_CLAIM_MODE = describe(
    ConfigOptions.key("execution.state-recovery.claim-mode")
    .enum_type(["NO_CLAIM", "CLAIM", "LEGACY"])
    .default_value("NO_CLAIM"),
    "Whether the job owns the snapshot that it starts from, and deletes it once unneeded. LEGACY means NO_CLAIM.",
    "execution.savepoint-restore-mode",
)
STATE_BACKEND = describe(
    ConfigOptions.key("state.backend.type")
    .enum_type(["hashmap", "rocksdb"])
    .default_value("hashmap"),
    "State backend for keyed state: Python objects (hashmap), or RocksDB.",
    "state.backend",
)

# The rocksdb backend

_ROCKSDB = "state.backend.rocksdb."
ROCKSDB_LOCAL_DIR = describe(
    ConfigOptions.key(_ROCKSDB + "localdir").string_type().no_default_value(),
    "Comma-separated local directories for databases. Default: Spark's local directories.",
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
    "Defaults of the other options of this backend for a kind of disk. Explicitly set options override them.",
)
ROCKSDB_BLOCK_CACHE_SIZE = describe(
    ConfigOptions.key(_ROCKSDB + "block.cache-size").memory_type().default_value(64 * 1024 * 1024),
    "Block cache, shared by all databases of a worker process.",
    minimum=0,
)
ROCKSDB_BLOCK_SIZE = describe(
    ConfigOptions.key(_ROCKSDB + "block.blocksize").memory_type().default_value(4096),
    "Size of the blocks that are read at once.",
    minimum=1,
)
ROCKSDB_WRITE_BUFFER_SIZE = describe(
    ConfigOptions.key(_ROCKSDB + "writebuffer.size").memory_type().default_value(64 * 1024 * 1024),
    "Size of a write buffer (memtable), per database.",
    minimum=1,
)
ROCKSDB_WRITE_BUFFER_COUNT = describe(
    ConfigOptions.key(_ROCKSDB + "writebuffer.count").int_type().default_value(2),
    "Maximum number of write buffers.",
    minimum=1,
)
ROCKSDB_OPEN_FILES = describe(
    ConfigOptions.key(_ROCKSDB + "files.open").int_type().default_value(-1),
    "Maximum number of open files of a database; -1: unlimited.",
    minimum=-1,
)
ROCKSDB_THREADS = describe(
    ConfigOptions.key(_ROCKSDB + "thread.num").int_type().default_value(2),
    "Background threads for flush and compaction.",
    minimum=1,
)
ROCKSDB_COMPACTION_STYLE = describe(
    ConfigOptions.key(_ROCKSDB + "compaction.style")
    .enum_type(["UNIVERSAL", "LEVEL"])
    .default_value("UNIVERSAL"),
    "Compaction style. UNIVERSAL rewrites less, so checkpoints write less.",
)
ROCKSDB_BLOOM_FILTER = describe(
    ConfigOptions.key(_ROCKSDB + "use-bloom-filter").boolean_type().default_value(True),
    "Whether files have Bloom filters.",
)
ROCKSDB_PARTITIONED = describe(
    ConfigOptions.key(_ROCKSDB + "memory.partitioned-index-filters")
    .boolean_type()
    .default_value(True),
    "Whether indexes and filters are partitioned, so that a small cache serves a large state.",
)
ROCKSDB_TRANSFER_THREADS = describe(
    ConfigOptions.key(_ROCKSDB + "checkpoint.transfer.thread.num").int_type().default_value(4),
    "Number of concurrent file transfers to and from checkpoint storage.",
    minimum=1,
)
