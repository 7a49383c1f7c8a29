"""Conditions and branches that are known before a query runs."""

from __future__ import annotations

import pytest

from penstock.sql.expr.folding import simplified
from penstock.sql.expr.functions import resolve
from penstock.sql.expr.nodes import InputRef, Literal, Rex
from penstock.sql.expr.typing import literal_of
from penstock.table import DataTypes

A = InputRef(DataTypes.BOOLEAN(), 0)
B = InputRef(DataTypes.BOOLEAN(), 1)
N = InputRef(DataTypes.INT(), 2)
SURE = InputRef(DataTypes.INT(False), 3)
TRUE, FALSE, UNKNOWN = literal_of(True), literal_of(False), Literal(DataTypes.BOOLEAN(), None)


@pytest.mark.parametrize(
    ("rex", "simpler"),
    [
        (resolve("AND", [A, TRUE]), A),
        (resolve("AND", [A, FALSE]), FALSE),
        (resolve("AND", [TRUE, TRUE]), TRUE),
        (resolve("AND", [A, A]), A),
        (resolve("OR", [A, FALSE]), A),
        (resolve("OR", [A, TRUE, B]), TRUE),
        (resolve("NOT", [resolve("NOT", [A])]), A),
        (resolve("NOT", [TRUE]), FALSE),
        (resolve("IS NULL", [SURE]), FALSE),
        (resolve("IS NOT NULL", [SURE]), TRUE),
        (resolve("IS NULL", [N]), resolve("IS NULL", [N])),
        (resolve("CASE", [FALSE, literal_of(1), N]), N),
        (resolve("CASE", [TRUE, N, literal_of(1)]), N),
        (
            resolve("CASE", [A, literal_of(1), FALSE, literal_of(2), N]),
            resolve("CASE", [A, literal_of(1), N]),
        ),
        (resolve("COALESCE", [SURE, N]), SURE),
        (resolve("COALESCE", [Literal(DataTypes.INT(), None), N]), N),
        (resolve("AND", [A, UNKNOWN]), resolve("AND", [A, UNKNOWN])),
    ],
    ids=lambda value: str(value),
)
def test_constant_conditions_are_folded_away(rex: Rex, simpler: Rex) -> None:
    assert simplified(rex) == simpler
