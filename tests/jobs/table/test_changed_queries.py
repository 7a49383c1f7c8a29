"""A changed query does not resume with the state of another one."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from penstock import state
from penstock.common import Configuration
from penstock.errors import RestoreRefusedError
from penstock.savepoint.metadata import METADATA, decode, encode
from penstock.table import AggregateFunction, EnvironmentSettings, TableEnvironment
from penstock.table.udf import udaf
from penstock.testing import MiniCluster
from tests.builders.modes import EPOCHS, PIPELINED

SUM = "SELECT name, SUM(id) AS n FROM orders GROUP BY name"
RENAMED = "SELECT name AS who, SUM(id) AS total FROM orders WHERE id < 1000 GROUP BY name"
MAX = SUM.replace("SUM", "MAX")
TUMBLE = (
    "SELECT name, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(at), INTERVAL '20' SECOND)) "
    "GROUP BY name, window_start, window_end UNION ALL SELECT name, id FROM orders WHERE name = 'mark'"
)


class Way(NamedTuple):
    mode: str
    backend: str
    savepoint: bool
    parallelism: int  # after the restore; before it is 1


WAYS = {
    "epochs": Way(EPOCHS, "hashmap", True, 1),
    "epochs, rescaled checkpoint": Way(EPOCHS, "rocksdb", False, 2),
    "pipelined, rescaled": Way(PIPELINED, "rocksdb", True, 2),
    "pipelined, checkpoint": Way(PIPELINED, "hashmap", False, 1),
}


def tables(directory: Path, way: Way, recovery: str | None, **options: str) -> TableEnvironment:
    parallelism = 1 if recovery is None else way.parallelism
    configuration = Configuration.from_dict(
        {
            "penstock.execution.mode": way.mode,
            "state.backend.type": way.backend,
            "parallelism.default": str(parallelism),
            "restart-strategy.type": "none",
            "execution.checkpointing.interval": "20 ms",
            "execution.checkpointing.dir": str(directory / "checkpoints"),
            **({} if recovery is None else {"execution.state-recovery.path": recovery}),
            **options,
        }
    )
    settings = EnvironmentSettings.new_instance().in_streaming_mode()
    found = TableEnvironment.create(settings.with_configuration(configuration).build())
    found.execute_sql(
        f"""CREATE TABLE orders (name STRING, id BIGINT, at AS TO_TIMESTAMP_LTZ(id, 0), WATERMARK FOR at AS at) WITH
        ('connector' = 'filesystem', 'path' = '{directory / "in"}', 'format' = 'csv', 'source.monitor-interval' = '20 ms')"""
    )
    found.execute_sql(
        f"CREATE TABLE others WITH ('path' = '{directory / 'others'}') LIKE orders (OVERWRITING OPTIONS)"
    )
    return found


def run(
    directory: Path,
    way: Way,
    query: str,
    recovery: str | None = None,
    *,
    functions: Mapping[str, Any] | None = None,
    **options: str,
) -> tuple[dict[str, int], str]:
    """Run a query until it has given a row of `mark`, and stop it; return its last row by name, and what to start from."""
    environment = tables(directory, way, recovery, **options)
    for name, function in (functions or {}).items():
        environment.create_temporary_function(name, function)
    result = environment.execute_sql(query)
    client = result.get_job_client()
    assert client is not None
    rows: dict[str, int] = {}
    with result.collect() as found:
        for row in found:
            if str(row.get_row_kind()) == "-U":
                continue
            name, value = row
            rows[name] = value
            if name == "mark":
                break
        path = str(client.stop_with_savepoint(False, str(directory / "savepoints")).result(60))
    if not way.savepoint:  # the last checkpoint of the job, which the savepoint was made of
        own = directory / "checkpoints" / str(client.get_job_id())
        path = str(max(own.glob("chk-*"), key=lambda each: int(each.name.removeprefix("chk-"))))
    return rows, path


def add(directory: Path, name: str, lines: str, to: str = "in") -> None:
    (directory / to).mkdir(exist_ok=True)
    (directory / to / name).write_text(lines)


@pytest.mark.parametrize("name", WAYS)
def test_state_of_another_query_is_refused_or_left_out(
    name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    way = WAYS[name]
    add(tmp_path, "1.csv", "ann,1\nann,2\nmark,1\n")
    with MiniCluster():
        _, start = run(tmp_path, way, SUM)
        add(tmp_path, "2.csv", "mark,2\n")
        with pytest.raises(RestoreRefusedError) as refused:
            run(tmp_path, way, MAX, start)
        rows, _ = run(tmp_path, way, RENAMED, start)
        assert rows["mark"] == 3
        with caplog.at_level(logging.WARNING):
            allowed = {"penstock.recovery.on-changed-query": "restart-operator"}
            rows, _ = run(tmp_path, way, MAX, start, **allowed)
        assert rows == {"mark": 2}
    assert refused.value.message.endswith("has state of another query")
    assert "SUM(orders.id BIGINT) AS BIGINT" in (refused.value.detail or "")
    assert "MAX(orders.id BIGINT) AS BIGINT" in (refused.value.detail or "")
    assert "penstock.recovery.on-changed-query" in (refused.value.hint or "")
    (line,) = (each for each in caplog.messages if "starts without state" in each)
    assert "GroupAggregate" in line


def test_a_window_of_another_size_is_refused(tmp_path: Path) -> None:
    way = WAYS["epochs"]
    add(tmp_path, "1.csv", "ann,1\nann,2\nmark,1\n")
    with MiniCluster():
        _, start = run(tmp_path, way, TUMBLE)
        add(tmp_path, "2.csv", "mark,2\n")
        with pytest.raises(RestoreRefusedError, match="state of another query") as refused:
            run(tmp_path, way, TUMBLE.replace("'20' SECOND", "'30' SECOND"), start)
    assert "differs in window" in (refused.value.detail or "")


@pytest.mark.parametrize("name", ["epochs", "pipelined, rescaled"])
def test_a_query_with_other_operators_is_refused_or_starts_without_their_state(
    name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    way = WAYS[name]
    distinct = SUM.replace("SUM(id)", "SUM(DISTINCT id)")  # in one phase, not in two
    add(tmp_path, "1.csv", "ann,1\nann,2\nmark,1\n")
    with MiniCluster():
        _, start = run(tmp_path, way, SUM)
        add(tmp_path, "2.csv", "mark,2\n")
        with pytest.raises(RestoreRefusedError) as refused:
            run(tmp_path, way, distinct, start)
        with caplog.at_level(logging.WARNING):
            allowed = {"penstock.recovery.on-changed-query": "restart-operator"}
            rows, _ = run(tmp_path, way, distinct, start, **allowed)
    assert rows == {"mark": 2}
    assert "  state: GroupAggregate(keys=[orders.name STRING], aggregates=[SUM(orders.id" in str(
        refused.value
    )
    assert "  query: GroupAggregate(keys=[orders.name STRING], aggregates=[SUM(DISTINCT" in str(
        refused.value
    )
    assert "penstock.recovery.on-changed-query" in (refused.value.hint or "")
    (line,) = (each for each in caplog.messages if "is dropped" in each)
    assert "GlobalGroupAggregate" in line


@pytest.mark.parametrize("name", ["epochs", "pipelined, rescaled"])
def test_tables_that_change_places_do_not_take_over_positions(name: str, tmp_path: Path) -> None:
    way = WAYS[name]
    both = "SELECT name, id FROM orders UNION ALL SELECT name, id + 10 FROM others"
    swapped = "SELECT name, id + 10 FROM others UNION ALL SELECT name, id FROM orders"
    for directory in ("in", "others"):
        add(tmp_path, "1.csv", "ann,1\nmark,1\n", directory)
    with MiniCluster():
        _, start = run(tmp_path, way, both)
        with pytest.raises(RestoreRefusedError, match="state of another query") as refused:
            run(tmp_path, way, swapped, start)
        allowed = {"penstock.recovery.on-changed-query": "restart-operator"}
        rows, _ = run(tmp_path, way, swapped, start, **allowed)
    assert rows["mark"] in (1, 11)  # both are read from their start
    assert "  state: Source(table=[default_catalog.default_database.orders])" in str(refused.value)
    assert "  query: Source(table=[default_catalog.default_database.others])" in str(refused.value)


class Total(AggregateFunction):
    def create_accumulator(self) -> list[int]:
        return [0]

    def accumulate(self, accumulator: list[int], *args: int) -> None:
        accumulator[0] += args[0]

    def get_value(self, accumulator: list[int]) -> int:
        return accumulator[0]


class Most(Total):
    def accumulate(self, accumulator: list[int], *args: int) -> None:
        accumulator[0] = max(accumulator[0], *args)


def test_another_function_under_the_same_name_is_refused(tmp_path: Path) -> None:
    way = WAYS["epochs"]
    add(tmp_path, "1.csv", "ann,1\nann,2\nmark,1\n")
    query = "SELECT name, f(id) FROM orders GROUP BY name"

    def functions(kind: type[AggregateFunction]) -> dict[str, Any]:
        return {"f": udaf(kind(), result_type="BIGINT", accumulator_type="ARRAY<BIGINT>")}

    with MiniCluster():
        _, start = run(tmp_path, way, query, functions=functions(Total))
        add(tmp_path, "2.csv", "mark,2\n")
        with pytest.raises(RestoreRefusedError, match="state of another query") as refused:
            run(tmp_path, way, query, start, functions=functions(Most))
        rows, _ = run(tmp_path, way, query, start, functions=functions(Total))
    assert rows["mark"] == 3
    assert "f:Total(orders.id BIGINT)" in (refused.value.detail or "")
    assert "f:Most(orders.id BIGINT)" in (refused.value.detail or "")


def test_state_without_a_description_is_restored_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    way = WAYS["epochs"]
    add(tmp_path, "1.csv", "ann,1\nann,2\nmark,1\n")
    with MiniCluster():
        _, start = run(tmp_path, way, SUM)
        _forget_descriptions(Path(start) / METADATA)
        add(tmp_path, "2.csv", "mark,2\n")
        with caplog.at_level(logging.WARNING):
            rows, _ = run(tmp_path, way, SUM, start)
    assert rows["mark"] == 3
    (line,) = (each for each in caplog.messages if "has no description" in each)
    assert "GroupAggregate" in line


def _forget_descriptions(path: Path) -> None:
    """Make a savepoint one that was written before states had descriptions."""
    savepoint = decode(path.read_bytes(), str(path))
    operators: dict[str, Any] = {
        name: replace(operator, description=None)
        for name, operator in savepoint.manifest.operators.items()
    }
    manifest = replace(savepoint.manifest, operators=operators)
    path.write_bytes(encode(replace(savepoint, manifest=manifest)))


def test_a_snapshot_shows_what_the_state_was_made_for(tmp_path: Path) -> None:
    add(tmp_path, "1.csv", "ann,1\nann,2\nmark,1\n")
    with MiniCluster():
        _, start = run(tmp_path, WAYS["epochs"], SUM)
    described = [each for each in state.read(start).operators if each.description is not None]
    source, found = sorted(described, key=lambda each: "GroupAggregate" in str(each.description))
    assert str(source.description) == "Source(table=[default_catalog.default_database.orders])"
    assert "aggregates=[SUM(orders.id BIGINT) AS BIGINT]" in str(found.description)
    assert f"made for {found.description}" in str(state.read(start))
