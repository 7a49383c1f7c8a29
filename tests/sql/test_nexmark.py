"""Nexmark's queries match the results of Flink SQL, in both execution modes, also when the job fails in between.

`nexmark.json` has the digests of Flink's final tables over the same events: `python -m benchmarks.nexmark.compare --check` compares them row by row.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from benchmarks.nexmark.files import Files
from benchmarks.nexmark.generator import Nexmark
from benchmarks.nexmark.tables import statements
from penstock.common import Configuration, RowKind
from penstock.table import EnvironmentSettings, TableEnvironment
from penstock.testing import MiniCluster
from penstock.testing.faults import StepFault, protocol_faults
from tests.builders.modes import EPOCHS, MODES, PIPELINED, SOAKS
from tests.builders.steps import at_step

ADDS = (RowKind.INSERT, RowKind.UPDATE_AFTER)
QUERIES = Path(__file__).parents[2] / "benchmarks" / "nexmark" / "queries"
KNOWN: dict[str, dict[str, Any]] = json.loads(
    (Path(__file__).parent / "nexmark.json").read_text(encoding="utf-8")
)
STATELESS = {"q0", "q1", "q2", "q14", "q21", "q22"}


@pytest.fixture(scope="module")
def events(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Files(Nexmark(30_000, 1_000), files=1).write(tmp_path_factory.mktemp("nexmark"))


class Rescaling:
    """Asks a running job for another parallelism before some of its checkpoints; keeps the answers."""

    def __init__(self, steps: dict[int, int]) -> None:
        self.steps = dict(steps)
        self.answers: list[Future[dict[str, int]]] = []
        self.seen = 0
        self.cluster: MiniCluster | None = None

    def act(self, _checkpoint_id: int) -> None:
        self.seen += 1
        wanted = self.steps.pop(self.seen, None)
        if wanted is not None and self.cluster is not None:
            self.answers.append(self.cluster.masters[0].request_rescale(wanted))

    @property
    def done(self) -> int:
        """How many times the job was rescaled."""
        return sum(each.done() and each.exception() is None for each in self.answers)


def run(query: str, events: Path, rescaling: Rescaling | None = None, **options: str) -> list[str]:
    """The final table of a query."""
    configuration = Configuration()
    given = {"parallelism.default": "2", "table.local-time-zone": "UTC"}
    for key, value in {**given, **options}.items():
        configuration.set_string(key.replace("__", "-").replace("_", "."), value)
    settings = EnvironmentSettings.new_instance().in_streaming_mode()
    tables = TableEnvironment.create(settings.with_configuration(configuration).build())
    for statement in statements(str(events), "parquet"):
        tables.execute_sql(statement)
    found: Counter[str] = Counter()
    text = (QUERIES / f"{query}.sql").read_text(encoding="utf-8")
    with MiniCluster() as cluster:
        if rescaling is not None:
            rescaling.cluster = cluster
        with tables.sql_query(text).execute().collect() as rows:
            for row in rows:
                comes = row.get_row_kind() in ADDS
                found[json.dumps(list(row), default=str)] += 1 if comes else -1
    assert min(found.values(), default=0) >= 0
    return sorted(found.elements())


def check(query: str, rows: list[str]) -> None:
    assert len(rows) == KNOWN[query]["rows"]
    assert hashlib.sha256("\n".join(rows).encode()).hexdigest() == KNOWN[query]["digest"]


@pytest.mark.parametrize(
    ("query", "mode"),
    [
        (query, mode)
        for query in KNOWN
        for mode in MODES
        if mode == EPOCHS or query not in STATELESS
    ],
)
def test_query_matches_recorded_flink_result(query: str, mode: str, events: Path) -> None:
    check(query, run(query, events, penstock_execution_mode=mode))


@pytest.mark.parametrize("mode", MODES if SOAKS else [PIPELINED])
@pytest.mark.parametrize("query", [query for query in KNOWN if query not in STATELESS])
def test_failures_in_between_change_nothing(query: str, mode: str, events: Path) -> None:
    moments = ("after write_manifest", "before commit_sink", "after trigger")
    strikes = [StepFault(moment, 1 + number) for number, moment in enumerate(moments)]
    if mode == EPOCHS:
        strikes = [each for each in strikes if each.moment != "after trigger"]
    with protocol_faults(*strikes) as faults:
        rows = run(
            query,
            events,
            penstock_execution_mode=mode,
            execution_checkpointing_interval="5 ms",
            restart__strategy_type="fixed-delay",
            restart__strategy_fixed__delay_attempts="10",
            restart__strategy_fixed__delay_delay="0 ms",
        )
    assert len(faults.struck) >= 2
    check(query, rows)


# In every run of the tests: an aggregation, a join, a window, a Top-N. When soaking: all.
SOME = {"q4", "q7", "q8", "q19"}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "query", [query for query in KNOWN if query not in STATELESS and (SOAKS or query in SOME)]
)
def test_rescaling_and_failures_in_between_change_nothing(
    query: str, mode: str, events: Path
) -> None:
    rescaling = Rescaling({1: 3, 3: 1, 5: 2})
    begins = "before run_pipe" if mode == EPOCHS else "before trigger"
    fault = StepFault("after write_manifest")  # the one that every job has, however fast it is
    with at_step(begins, rescaling.act), protocol_faults(fault) as faults:
        rows = run(
            query,
            events,
            rescaling,
            penstock_execution_mode=mode,
            execution_checkpointing_interval="5 ms",
            restart__strategy_type="fixed-delay",
            restart__strategy_fixed__delay_attempts="10",
            restart__strategy_fixed__delay_delay="0 ms",
        )
    assert rescaling.done >= 1
    assert rescaling.cluster is not None
    assert rescaling.cluster.masters[0].restarts == len(faults.struck) == 1
    check(query, rows)


@pytest.mark.parametrize("mode", MODES)
def test_the_price_of_the_last_ten_auctions_is_known_although_bids_still_come(
    mode: str, events: Path
) -> None:
    """q6, which Flink refuses: every auction that was won has a mean."""
    rows = [json.loads(row) for row in run("q6", events, penstock_execution_mode=mode)]
    assert len(rows) == KNOWN["q9"]["rows"]
    assert all(mean >= 1 for _, mean in rows)


def test_bids_get_names_from_a_table_that_is_looked_up(events: Path) -> None:
    """q13: each bid finds its name."""
    rows = [json.loads(row) for row in run("q13", events)]
    assert len(rows) == KNOWN["q0"]["rows"]
    assert all(name == f"value-{auction % 10_000}" for auction, *_, name in rows)
