"""Options that only Penstock has."""

from __future__ import annotations

from penstock.options.config_options import ConfigOptions
from penstock.options.registry import describe
from penstock.time.durations import Duration

EXECUTION_MODE = describe(
    ConfigOptions.key("penstock.execution.mode")
    .enum_type(["auto", "pipelined", "epochs"])
    .default_value("auto"),
    "Execution mode: pipelined, with long-running tasks that exchange records at once, or epochs, one Spark job after another. auto: "
    "pipelined if a source is unbounded and Spark has a core for each slot.",
)
EPOCH_INTERVAL = describe(
    ConfigOptions.key("penstock.epoch.interval")
    .duration_type()
    .default_value(Duration.of_seconds(1)),
    "Length of an epoch of an unbounded job without checkpointing.",
    minimum=1,
)
PROGRESS = describe(
    ConfigOptions.key("penstock.progress")
    .enum_type(["auto", "always", "lines", "never"])
    .default_value("auto"),
    "How a job shows its progress on standard error. always: a table that is updated; lines: one line at the start and one at the end; "
    "auto: the table in a terminal, lines elsewhere; never: restarts only. A job in a session always shows lines, unless this is never.",
)
PROGRESS_CHECKPOINTS = describe(
    ConfigOptions.key("penstock.progress.checkpoints").boolean_type().default_value(False),
    "Whether progress has a line for each completed checkpoint.",
)
REST_ENABLED = describe(
    ConfigOptions.key("penstock.rest.enabled").boolean_type().default_value(True),
    "Whether the command line and the REST API can reach the job.",
)
REST_TOKEN_FILE = describe(
    ConfigOptions.key("penstock.rest.token-file").string_type().no_default_value(),
    "File with the token for reading and writing, created if it does not exist; only its owner may read it.",
)
REST_READ_TOKEN_FILE = describe(
    ConfigOptions.key("penstock.rest.read-token-file").string_type().no_default_value(),
    "File with the token for reading only, created if it does not exist; only its owner may read it.",
)
REST_WRITERS = describe(
    ConfigOptions.key("penstock.rest.writers").string_type().no_default_value(),
    "Comma-separated common names of the client certificates with the write role. Default: all trusted certificates.",
)
REST_AUDIT_FILE = describe(
    ConfigOptions.key("penstock.rest.audit-file").string_type().no_default_value(),
    "Audit log: file with one line of JSON per write request. The requests are also logged.",
)
REST_PROCESSOR_SHARE = describe(
    ConfigOptions.key("penstock.rest.processor-share").double_type().no_default_value(),
    "Share of a processor that requests may use on average. Default: a fortieth of all processors.",
    minimum=0.001,
)
REPLAY_JOURNAL = describe(
    ConfigOptions.key("penstock.replay.journal").boolean_type().default_value(True),
    "Whether a job with a checkpoint directory writes the journal for `penstock replay`.",
)
JOB_ID = describe(
    ConfigOptions.key("penstock.job-id").string_type().no_default_value(),
    "Id of the job, 32 hexadecimal digits: started again with the same execution.checkpointing.dir, it resumes from its last "
    "checkpoint; the first time it starts without state.",
)
RECOVERY_ALLOW_FALLBACK = describe(
    ConfigOptions.key("penstock.recovery.allow-fallback").boolean_type().default_value(False),
    "Whether a job whose last checkpoint is damaged or missing falls back to an older one, and emits output again.",
)
RECOVERY_ON_CHANGED_QUERY = describe(
    ConfigOptions.key("penstock.recovery.on-changed-query")
    .enum_type(["fail", "restart-operator"])
    .default_value("fail"),
    "What happens if the state of an operator belongs to another query: fail, or restart-operator, which starts that operator without "
    "state and logs its name.",
)
SIGNING_KEY = describe(
    ConfigOptions.key("penstock.signing.key").string_type().no_default_value(),
    "Key that signs checkpoints and savepoints; unsigned ones are not restored.",
)
SIGNING_KEY_FILE = describe(
    ConfigOptions.key("penstock.signing.key-file").string_type().no_default_value(),
    "File with the key that signs checkpoints and savepoints.",
)
STATE_SPILL_ENTRIES = describe(
    ConfigOptions.key("penstock.state.spill-entries").int_type().default_value(100_000),
    "Entries that an operator caches as objects between two checkpoints before it writes them to its database.",
    minimum=1,
)
DEBUG_CHECK_ORDER = describe(
    ConfigOptions.key("penstock.debug.check-order").boolean_type().default_value(False),
    "Whether the order of buffers is verified in every channel.",
)
