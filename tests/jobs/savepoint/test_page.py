"""The page about savepoints says what is true."""

from __future__ import annotations

import datetime as dt
import json
import pickle
import re
import uuid
from decimal import Decimal
from pathlib import Path
from zoneinfo import ZoneInfo

import pyarrow.parquet as pq
import pytest

from penstock import state
from penstock.common.types import Row, RowKind
from penstock.savepoint import open_json, scalars, table_files
from penstock.savepoint.codec import from_json
from penstock.testing import MiniCluster
from penstock.windowing import CountWindow, GlobalWindow, TimeWindow
from tests.builders.clusters import close_subtasks
from tests.builders.environments import stateful_environment
from tests.jobs.savepoint.plain_reader import read_metadata, read_tables, value_of
from tests.jobs.savepoint.programs import run
from tests.jobs.savepoint.test_savepoints import Job

PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "savepoints.md"


@pytest.fixture(scope="module")
def savepoint(tmp_path_factory):
    directory = tmp_path_factory.mktemp("page")
    with MiniCluster():
        run(stateful_environment("hashmap", directory))
    close_subtasks()
    return Job("hashmap", directory, None).savepoint(directory / "savepoints")


def test_the_program_that_reads_a_file_runs(savepoint, capsys):
    program = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)[-1]
    variables = {"savepoint": savepoint}
    exec(compile(program, PAGE.name, "exec"), variables)
    counts = variables["counts"]
    assert sorted(counts["key"]) == [f"key {n}" for n in range(7)]
    assert set(counts["value"]) == {5, 6}
    shown = re.search(r"value\"\]\)  # (.*)", program).group(1)
    assert capsys.readouterr().out.strip() == shown


def plain(value):
    """A value as the plain reader gives it."""
    kind = type(value)
    if kind in {TimeWindow, CountWindow}:
        return ("window", *value)
    if kind is GlobalWindow:
        return ("window",)
    if kind is Row:
        names = value.get_field_names()
        return "row", str(value.get_row_kind()), names and tuple(names), tuple(map(plain, value))
    if kind is dict:
        return {plain(key): plain(item) for key, item in value.items()}
    return kind(map(plain, value)) if kind in {tuple, list, set, frozenset} else value


def opened(value):
    """What the plain reader gave, with its pickles opened."""
    if type(value) is tuple and len(value) == 2 and value[0] == "pickle":
        return plain(pickle.loads(value[1]))
    if type(value) is dict:
        return {opened(key): opened(item) for key, item in value.items()}
    return type(value)(map(opened, value)) if type(value) in {tuple, list} else value


def test_the_page_is_enough_to_read_keyed_state_windows_and_timers(savepoint):
    snapshot, names = state.read(savepoint), set()
    for operator, written in read_metadata(savepoint)["operators"].items():
        for name, rows in read_tables(savepoint, written).items():
            expected = [
                (key, *namespace) if name.startswith("timers/") else (key, namespace, value)
                for chain in snapshot.chains(operator)
                for key, namespace, value in snapshot.reader(operator).entries(
                    chain, name, snapshot.databases, operator
                )
            ]
            found = sorted(map(repr, map(opened, rows)))
            assert found == sorted(map(repr, map(plain, expected)))
            names.add(name)
    assert names >= {"state/count", "state/mixed", "state/old last", "state/mean", "timers/event"}
    assert names >= {"window-contents", "merging-window-set", "window/trigger-count"}


def test_the_page_is_enough_to_read_operator_state_and_offsets(savepoint):
    snapshot, metadata, names = state.read(savepoint), read_metadata(savepoint), set()
    for vertex, written in metadata["vertices"].items():
        kept = snapshot.manifest.vertices[vertex].subtasks
        for subtask, expected in zip(written["subtasks"], kept, strict=True):
            local = value_of(subtask["local"])
            assert opened(local) == plain(pickle.loads(expected.local))
            names |= {name for state in local["operators"].values() for name in state}
    assert names >= {"list/numbers", "union/highest", "broadcast/rules", "list/writers"}
    splits = [
        (fields["split"][1]["split_id"], fields["position"], fields["watermark"])
        for source in metadata["sources"].values()
        for held in source["splits"]
        for _, fields in value_of(held)
    ]
    assert splits == [(row.split, row.position, row.watermark) for row in snapshot.offsets()]
    assert splits


ODD = [
    None, True, -(2**63), 2**70, 0.1, -0.0, "größe", b"\0", dt.date(1, 1, 1), dt.time(23, 59, 59, 1),
    dt.datetime(2026, 3, 29, 1, 30, tzinfo=ZoneInfo("Europe/Berlin")), dt.timedelta(-1, 1, 1),
    Decimal("1.50"), Decimal("1E+9"), uuid.UUID(int=5), (), (1, "a", None), [], [[None], [1]],
    {}, {"a": {1: (2,)}}, {None: 1}, {1, 2}, frozenset({"x"}), Row(a=1, b=Row(None, [Decimal("0.1")])),
    Row.of_kind(RowKind.DELETE, 1), TimeWindow(-5, 5), CountWindow(3), GlobalWindow(),
]  # fmt: skip


@pytest.mark.parametrize("value", ODD, ids=repr)
def test_the_page_is_enough_to_read_odd_values(tmp_path, value):
    writer = state.new_savepoint()
    writer.put_value("op", "wrapped", {"key": [value]})
    if value is not None:
        writer.put_value("op", "alone", {"key": value})
    writer.put_operator_list("op", "list", [value])
    path = writer.write(tmp_path)
    metadata = read_metadata(path)
    (operator,) = metadata["operators"].values()
    tables = read_tables(path, operator)
    assert repr(opened(tables["state/wrapped"])) == repr([("key", None, [plain(value)])])
    if value is not None:
        assert repr(opened(tables["state/alone"])) == repr([("key", None, plain(value))])
    (vertex,) = metadata["vertices"].values()
    (held,) = value_of(vertex["subtasks"][0]["local"])["operators"].values()
    assert repr(opened(held["list/list"])) == repr([plain(value)])


def test_every_file_says_whose_it_is(savepoint):
    for operator in read_metadata(savepoint)["operators"].values():
        for tables in operator["tables"]:
            for file in [file for table in tables.values() for file in table["files"]]:
                described = pq.read_schema(f"{savepoint}/{file['file']}").metadata[b"penstock"]
                whose = json.loads(described)["table"]["operator"]
                assert whose == (operator["uid"] or operator["name"])


def test_the_page_lists_all_tags():
    tags = {*open_json._DECODERS, "$pickle"}
    listed = set(re.findall(r"`(\$\w+)`", PAGE.read_text()))
    assert listed == tags == set(re.findall(r"`(\$\w+)`", open_json.__doc__))


def test_the_page_lists_all_types():
    table = PAGE.read_text().partition("`type` in the description")[2].partition("\n\n")[0]
    listed = set(re.findall(r"`([a-z ]+)`", table))
    nested = {"tuple", "tuple of any length", "row", "list", "set", "frozenset", "dict"}
    known = {*scalars._BY_NAME, *scalars._PLAIN, "datetime", "decimal", *nested}
    assert known <= listed
    for name in known - nested:
        assert from_json({"type": name, "zone": None, "scale": 0}).to_json()["type"] == name


def test_the_page_gives_the_size_of_row_groups():
    assert f"at most {table_files.ROWS_PER_GROUP:,} rows" in PAGE.read_text()
