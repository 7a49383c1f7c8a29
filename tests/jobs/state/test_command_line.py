"""`penstock state`: ls, show, diff."""

from __future__ import annotations

import json

import pytest

from penstock.cli.main import main
from tests.jobs.state.jobs import checkpoint


@pytest.fixture
def call(capsys):
    def run(*arguments):
        code = main(["state", *map(str, arguments)])
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return run


def test_ls_lists_operators_and_states(ran, call):
    code, out, _ = call("ls", checkpoint(ran, 2))
    assert code == 0
    assert "everything (uid all, id " in out
    assert "  total            value of Integer, 2 entries" in out


def test_contents_are_listed_as_json(ran, call):
    code, out, _ = call("ls", checkpoint(ran, 2), "--json")
    reported = json.loads(out)
    assert (code, reported["checkpoint_id"]) == (0, 2)
    (operator,) = [each for each in reported["operators"] if each["uid"] == "all"]
    assert "total" in {state["name"] for state in operator["states"]}
    _, out, _ = call("show", checkpoint(ran, 2), "all", "total", "--json")
    assert {"key": "ann", "value": 4} in [json.loads(line) for line in out.splitlines()]


def test_show_prints_a_table(ran, call):
    code, out, _ = call("show", checkpoint(ran, 2), "all", "total")
    head, *rows = out.splitlines()
    assert (code, head) == (0, "key  value")
    assert sorted(rows) == ["ann  4", "bob  2"]


def test_show_stops_at_the_limit(ran, call):
    _, out, _ = call("show", checkpoint(ran, 3), "all", "total", "--limit", 1)
    assert len(out.splitlines()) == 3
    assert out.endswith("... more than 1 rows: --limit 0 shows all\n")
    _, out, _ = call("show", checkpoint(ran, 3), "all", "total", "--limit", 0)
    assert len(out.splitlines()) == 4


@pytest.mark.parametrize(
    ("options", "rows"),
    [
        (["all", "visit", "--key", "ann"], [{"key": "ann", "value": {"page": "p3", "count": 2}}]),
        (["all", "seen", "--key", "'ann'", "--explode", "--limit", "1"], [{"key": "ann", "position": 0, "value": 1}]),
        (["all", "--timers", "--key", "bob"], [{"key": "bob", "namespace": None, "timestamp": 102, "domain": "event"}]),
        (["all", "watermark", "--limit", "1"], [{"subtask": 0, "value": 2}]),
    ],
)  # fmt: skip
def test_show_prints_json_lines(ran, call, options, rows):
    code, out, err = call("show", checkpoint(ran, 2), *options, "--format", "json")
    assert (code, [json.loads(line) for line in out.splitlines()]) == (0, rows), err


def test_show_offsets_and_watermarks(ran, call):
    _, out, _ = call("show", checkpoint(ran, 2), "--offsets", "--format", "json")
    assert json.loads(out)["position"] == ["split-0", 2]
    _, out, _ = call("show", checkpoint(ran, 2), "--watermarks")
    assert out.splitlines()[0].split() == ["operators", "subtask", "watermark", "finished"]


def test_csv_has_nested_values_as_json(ran, call):
    _, out, _ = call("show", checkpoint(ran, 2), "all", "parity", "--format", "csv")
    assert sorted(out.splitlines()) == ['ann,"{""odd"": 3}"', 'bob,"{""even"": 2}"', "key,value"]


def test_diff_prints_changes(ran, call):
    code, out, _ = call(
        "diff", checkpoint(ran, 2), checkpoint(ran, 3), "--format", "json", "--limit", 0
    )
    rows = [json.loads(line) for line in out.splitlines()]
    totals = sorted(
        (row["key"], row["change"], row["before"], row["after"])
        for row in rows
        if row["state"] == "total"
    )
    assert (code, totals) == (0, [("ann", "changed", 4, 18), ("cid", "added", None, 12)])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["ls", "/nowhere"], "no checkpoint at '/nowhere'"),
        (["show", "{path}"], "no operator given"),
        (["show", "{path}", "all"], "operator 'all' has 'best'"),
        (["show", "{path}", "all", "totl"], "did you mean 'total'"),
        (["show", "{path}", "all", "total", "--limit", "-1"], "--limit -1 is negative"),
        (["show", "{path}", "--watermarks", "--key", "a"], "has no column 'key'"),
    ],
)  # fmt: skip
def test_mistakes_end_with_a_message(ran, call, arguments, message):
    code, out, err = call(*(each.format(path=checkpoint(ran, 2)) for each in arguments))
    assert (code, out) == (2, "")
    assert message in err
