"""The final table of a changelog."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from penstock.graph.operator_specs.columnar.changes import FinalTableSpec
from penstock.sql.types import IntType, VarCharType
from penstock.testing.harness import OperatorHarness
from tests.unit.runtime.columnar.changes import FrameOutput, batch_of, changes_of

TYPES = (IntType(), VarCharType(9))


def running(backend, snapshots=()):
    output = FrameOutput()
    harness = OperatorHarness(
        FinalTableSpec(TYPES, (0,)), state_backend=backend, snapshots=snapshots, output=output
    )
    return harness, output


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
@pytest.mark.parametrize("few", [3, 50_000])
def test_the_final_rows_are_given_once_at_the_end(backend, few, monkeypatch):
    monkeypatch.setattr("penstock.runtime.columnar.operators.final_table._FEW", few)
    chance = random.Random(few)
    there: Counter[tuple] = Counter()
    harness, output = running(backend)
    for step in range(40):
        rows = []
        for _ in range(chance.randrange(1, 9)):
            if there and chance.random() < 0.4:
                row = chance.choice(sorted(there.elements(), key=str))
                rows.append((chance.choice(["-U", "-D"]), row))
                there[row] -= 1
                there += Counter()
            else:
                row = (chance.randrange(9), chance.choice(["a", "b", None]))
                rows.append((chance.choice(["+I", "+U"]), row))
                there[row] += 1
        harness.operator.process(batch_of(rows, TYPES))
        if step % 13 == 12:
            snapshot = harness.snapshot()
            harness.close()
            assert output.frames == []
            harness, output = running(backend, [snapshot])
    harness.operator.finish(ends_for_good=False)
    found = changes_of(output.frames)
    assert {kind for kind, _ in found} == {"+I"}
    assert Counter(row for _, row in found) == there
    harness.close()


def test_a_row_may_be_taken_back_before_it_comes(monkeypatch):
    monkeypatch.setattr("penstock.runtime.columnar.operators.final_table._FEW", 0)
    harness, output = running("hashmap")
    for change in (("-U", (1, "a")), ("+I", (2, "b")), ("-D", (3, "c")), ("+I", (1, "a"))):
        harness.operator.process(batch_of([change], TYPES))
    harness.operator.finish(ends_for_good=False)
    assert changes_of(output.frames) == [("+I", (2, "b"))]
    harness.close()
