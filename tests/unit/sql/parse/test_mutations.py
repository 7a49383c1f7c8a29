"""Whatever is written, the parser answers with statements or with an error that has a place in the text."""

from __future__ import annotations

import random

from penstock.sql.errors import SqlParseError
from penstock.sql.parse.parser import parse
from penstock.sql.parse.tokens import SqlText, tokenize
from tests.unit.sql.parse.test_errors import WRONG
from tests.unit.sql.parse.test_queries import EXPRESSIONS, QUERIES

DEFINITIONS = [
    "CREATE TABLE t (a INT NOT NULL, b AS a * 2, c STRING METADATA FROM 'k' VIRTUAL) WITH ('x' = 'y')",
    "CREATE TABLE t (WATERMARK FOR d AS d - INTERVAL '5' SECOND, PRIMARY KEY (a) NOT ENFORCED)",
    "ALTER TABLE t ADD (a MAP<STRING, ARRAY<ROW<b INT>>> FIRST, WATERMARK FOR c AS c)",
    "EXECUTE STATEMENT SET BEGIN INSERT INTO a SELECT 1; INSERT INTO b (x) VALUES (2); END",
    "CREATE TABLE t WITH ('a' = 'b') LIKE u (INCLUDING ALL EXCLUDING OPTIONS)",
    "SHOW TABLES FROM c.d NOT LIKE 'x%'; SET 'a' = 'b'; DESCRIBE EXTENDED t; USE CATALOG c",
]


def texts() -> list[str]:
    return [
        *(text for text, _ in QUERIES),
        *(f"SELECT {text}" for text, _ in EXPRESSIONS),
        *(case[0] for case in WRONG),
        *DEFINITIONS,
    ]


def mutated(text: str, others: list[str], rng: random.Random) -> str:
    try:
        tokens = [text[token.start : token.end] for token in tokenize(SqlText(text))[:-1]]
    except SqlParseError:
        tokens = text.split(" ")
    for _ in range(rng.randint(1, 3)):
        at = rng.randrange(len(tokens)) if tokens else 0
        kind = rng.randrange(5)
        if kind == 0:
            del tokens[at : at + rng.randint(1, 2)]
        elif kind == 1:
            tokens.insert(at, rng.choice(others))
        elif kind == 2 and tokens:
            other = rng.randrange(len(tokens))
            tokens[at], tokens[other] = tokens[other], tokens[at]
        elif kind == 3 and tokens:
            tokens[at] = rng.choice(others)
        else:
            tokens = tokens[:at]
    return " ".join(tokens)


def failure_of(text: str) -> SqlParseError | None:
    try:
        parse(text)
    except SqlParseError as error:
        return error
    return None


def test_mutilated_statements_never_break_the_parser() -> None:
    rng = random.Random(13)
    known = texts()
    words = sorted({word for text in known for word in text.split()})
    refused = 0
    for _ in range(1000):
        text = mutated(rng.choice(known), words, rng)
        error = failure_of(text)
        if error is None:
            continue
        refused += 1
        assert error.position is not None
        line, column = error.position
        lines = text.split("\n")
        assert 1 <= line <= len(lines)
        assert 1 <= column <= len(lines[line - 1]) + 1
        assert error.message
    assert 500 < refused < 1000
