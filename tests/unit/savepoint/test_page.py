"""The page about savepoints says what is true."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from penstock.savepoint import open_json, scalars, table_files
from penstock.savepoint.codec import from_json
from penstock.testing.mini_cluster import MiniCluster
from savepoint.programs import environment, run
from savepoint.test_savepoints import Job, close_subtasks

PAGE = Path(__file__).parents[3] / "docs" / "savepoints.md"


@pytest.fixture(scope="module")
def savepoint(tmp_path_factory):
    directory = tmp_path_factory.mktemp("page")
    with MiniCluster():
        run(environment("hashmap", directory))
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
