"""`table.exec.sink.nested-constraint-enforcer`: NOT NULL inside of ROWs, ARRAYs and MAPs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.table import EnvironmentSettings, TableEnvironment
from penstock.testing import MiniCluster
from tests.builders.cases import check_all

ROW = "ROW<a INT NOT NULL, b ROW<c INT NOT NULL>>"
#: Name: type of the column, value that breaks it, the modes that see it, and what messages call the part
CASES = {
    "a field of a row": (ROW, {"a": None, "b": None}, ["ROWS", "ROWS_AND_COLLECTIONS"], "v.a"),
    "a field of a row of a row": (
        ROW,
        {"a": 1, "b": {"c": None}},
        ["ROWS", "ROWS_AND_COLLECTIONS"],
        "v.b.c",
    ),
    "an element of an array": (
        "ARRAY<INT NOT NULL>",
        [1, None],
        ["ROWS_AND_COLLECTIONS"],
        "v[*]",
    ),
    "a field of an element": (
        "ARRAY<ROW<a INT NOT NULL>>",
        [{"a": None}],
        ["ROWS_AND_COLLECTIONS"],
        "v[*].a",
    ),
    "a value of a map": (
        "MAP<STRING, INT NOT NULL>",
        {"k": None},
        ["ROWS_AND_COLLECTIONS"],
        "v[*].value",
    ),
    "no violation": (ROW, {"a": 1, "b": None}, [], ""),
    "no row at all": (ROW, None, [], ""),
    "an empty array": ("ARRAY<INT NOT NULL>", [], [], ""),
}


@pytest.fixture(scope="module", autouse=True)
def in_this_process() -> Iterator[None]:
    with MiniCluster():
        yield


def written(directory: Path, kind: str, value: object, mode: str, not_null: str) -> int:
    """Return how many rows a table of files has, after a row with this value was written to it."""
    (directory / "in.json").write_text(json.dumps({"v": value}) + "\n")
    env = TableEnvironment.create(EnvironmentSettings.in_batch_mode())
    env.get_config().set("table.exec.sink.nested-constraint-enforcer", mode)
    env.get_config().set("table.exec.sink.not-null-enforcer", not_null)
    for name in ("in.json", "out"):
        env.execute_sql(
            f"CREATE TABLE `{name}` (v {kind}) WITH ('connector' = 'filesystem', 'path' = '{directory / name}', 'format' = 'json')"
        )
    env.execute_sql("INSERT INTO `out` SELECT * FROM `in.json`").wait()
    files = [path for path in directory.glob("out/*") if not path.name.startswith(".")]
    return sum(len(path.read_text().splitlines()) for path in files)


def test_not_null_inside_of_values(tmp_path: Path) -> None:
    def check(case: tuple[str, str, str]) -> None:
        name, mode, not_null = case
        kind, value, seen, part = CASES[name]
        directory = tmp_path / f"{name} {mode} {not_null}"
        directory.mkdir()
        if mode not in seen:
            assert written(directory, kind, value, mode, not_null) == 1
        elif not_null == "DROP":
            assert written(directory, kind, value, mode, not_null) == 0
        else:
            with pytest.raises(Exception, match="is NOT NULL") as raised:
                written(directory, kind, value, mode, not_null)
            assert f"column '{part}' is NOT NULL" in str(raised.value)

    modes = ["IGNORE", "ROWS", "ROWS_AND_COLLECTIONS"]
    cases = [(name, mode, how) for name in CASES for mode in modes for how in ("ERROR", "DROP")]
    check_all({" ".join(case): case for case in cases}, check)
