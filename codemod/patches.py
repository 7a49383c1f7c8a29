"""patches.py TREE: small changes of code that keep texts as they were, after class names have changed. Each must match exactly once."""
import sys
from pathlib import Path
tree = Path(sys.argv[1])
def patch(path, old, new, count=1):
    p = tree / path
    text = p.read_text()
    if text.count(old) != count:
        print(f"PATCH DOES NOT FIT: {path}: {old!r} ({text.count(old)} times)"); return
    p.write_text(text.replace(old, new))
patch("penstock/graph/describe.py", 'type(spec).__name__.removesuffix("Spec")', 'type(spec).__name__.removeprefix("Columnar").removesuffix("Spec")')
patch("penstock/table/physical/state_descriptions.py", 'type(spec).__name__.removesuffix("Spec")', 'type(spec).__name__.removeprefix("Columnar").removesuffix("Spec")')
patch("penstock/table/physical/logical_texts.py", '''_NAMES: dict[type[LogicalNode], str] = {
    LogicalTableScan: "LogicalTableScan",
    LogicalWatermarkAssigner: "LogicalWatermarkAssigner",
    LogicalTableFunctionScan: "LogicalTableFunctionScan",
    LogicalOverAggregate: "LogicalOverAggregate",
    LogicalMatch: "LogicalMatch",
    LogicalSink: "LogicalSink",
}


''', "\n")
patch("penstock/table/physical/logical_texts.py", '_NAMES.get(type(node), f"Logical{type(node).__name__}")', 'type(node).__name__')
patch("penstock/table/physical/explain.py", 'return type(node).__name__\n', 'return type(node).__name__.removeprefix("Physical")\n')
patch("penstock/table/physical/implement/context.py", '{type(node).__name__} cannot', "{type(node).__name__.removeprefix('Logical')} cannot")
patch("penstock/table/plan/decorrelation.py", '{type(node).__name__} depends', "{type(node).__name__.removeprefix('Logical')} depends")
patch("penstock/table/execution/executor.py", '{type(statement).__name__} is', "{type(statement).__name__.removesuffix('Statement')} is")
patch("penstock/table/execution/explaining.py", '{type(statement).__name__} has', "{type(statement).__name__.removesuffix('Statement')} has")
patch("penstock/table/sql/parser.py", "['SetOption', 'Query']", "['SetStatement', 'QueryStatement']")
patch("penstock/cli/replay.py", 'parser.add_argument("--checkpoint", type=int, metavar="N", help="which interval")', '''parser.add_argument(
        "--checkpoint",
        dest="checkpoint_id",
        type=int,
        metavar="N",
        help="replay the interval that ends with checkpoint N",
    )''')
patch("penstock/jobmanager/running/journal.py", "the checkpoint `interval`", "the checkpoint `checkpoint_id`")
patch("tests/unit/table/plan/plans.py", 'kind = type(node).__name__\n    if kind == "Scan":', 'kind = type(node).__name__.removeprefix("Logical")\n    if kind == "TableScan":')
for name in ("penstock/jobmanager/running/journal.py", "docs/replay.md"):
    patch(name, "checkpoint N as it", "the interval up to checkpoint N, as it", 2)
p = tree / "tests/unit/table/plan/test_queries.py"
p.write_text(p.read_text().replace("Over(Over(s))", "OverAggregate(OverAggregate(s))").replace("(Over(s)", "(OverAggregate(s)"))
patch("CONTRIBUTING.md", "import OperatorSpec, StateTable\n\nLAST = StateTable(", "import OperatorSpec, StateTableDescription\n\nLAST = StateTableDescription(")
patch("docs/sources-and-sinks.md", "`request.epoch` is the number of the checkpoint, `epoch.epoch` of what was written may be\n  smaller", "`request.checkpoint_id` is the id of the checkpoint, `checkpoint.checkpoint_id` of what was written\n  may be smaller")
patch("docs/sources-and-sinks.md", "`epoch.attempt` is unique to the attempt at the epoch.", "`checkpoint.attempt` is unique to the attempt at the checkpoint.")
patch("docs/sources-and-sinks.md", "`SinkWriter.on_committed(epoch)` tells the writer that the committer is done with all that it returned up to this epoch:", "`SinkWriter.on_committed(checkpoint_id)` tells the writer that the committer is done with all that it returned up to this checkpoint:")
patch("docs/lakes.md", "`penstock.epoch`", "`penstock.checkpoint-id`")
patch("tests/jobs/jobmanager/test_pipelined.py", 'ThreadCluster, "room", lambda', 'ThreadCluster, "capacity", lambda')
patch("tests/unit/jobmanager/test_job_core.py", "Restored -> looking for requests; Asked -> running on", "JobRestored -> looking for requests; RequestTaken -> running on")
patch("tests/unit/checkpoint/test_coordinator.py", "knows no event Event", "knows no event CoordinatorEvent")
patch("docs/how-it-works.md", "the driver sends a `Trigger` to the slots", "the driver sends a `TriggerBarrier` to the slots")
patch("docs/how-it-works.md", "`Completed` tells the slots", "`ConfirmCheckpoint` tells the slots")
patch("README.md", "[docs/design-notes.md](docs/design-notes.md) has the measurements behind the design,", "[docs/glossary.md](docs/glossary.md) defines the terms.\n[docs/design-notes.md](docs/design-notes.md) has the measurements behind the design,")
patch("docs/how-it-works.md", "this page, and a test checks that they are what today's compiler prints.\n", "this page, and a test checks that they are what today's compiler prints. The [glossary](glossary.md) defines the terms.\n")
