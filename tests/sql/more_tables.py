"""Tables of `more_queries`: `rates` has a key and a rowtime, so it has versions; `stock` is a changelog in Debezium's format; `things` has a column of every type."""

from __future__ import annotations

import datetime as dt
import json
import random
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

from tests.sql.random_queries import START, WORDS

THINGS = {
    "n": "INT NOT NULL",
    "ti": "TINYINT",
    "si": "SMALLINT",
    "i": "INT",
    "bi": "BIGINT",
    "f": "FLOAT",
    "d": "DOUBLE",
    "m": "DECIMAL(12, 3)",
    "c": "CHAR(4)",
    "s": "STRING",
    "by": "BYTES",
    "dy": "DATE",
    "t": "TIME(0)",
    "ts9": "TIMESTAMP(9)",
    "ltz": "TIMESTAMP_LTZ(3)",
    "ai": "ARRAY<INT>",
    "ms": "MAP<STRING, INT>",
    "r": "ROW<x INT, y STRING>",
}
_RATES = "k INT NOT NULL, rate DECIMAL(8, 3), ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '5' SECOND, PRIMARY KEY (k) NOT ENFORCED"
_STOCK = "sku INT NOT NULL, place STRING, amount INT, ts TIMESTAMP(3)"
_KEY = "PRIMARY KEY (sku) NOT ENFORCED"


def _rates() -> Iterator[str]:
    rng = random.Random("rates")
    for number in range(40):
        ts = START + dt.timedelta(milliseconds=number * 1_000 + rng.randrange(2_000))
        rate = Decimal(rng.randrange(1, 9_000)).scaleb(-3)
        yield f"{rng.randrange(6)},{rate},{ts.isoformat(' ', 'milliseconds')}"


def _stock() -> Iterator[str]:
    """Changes of rows, each with what was before."""
    rng = random.Random("stock")
    there: dict[int, dict[str, Any]] = {}
    for number in range(80):
        ts = START + dt.timedelta(milliseconds=number * 600)
        sku = rng.randrange(9)
        before = there.get(sku)
        after: dict[str, Any] | None = {
            "sku": sku,
            "place": rng.choice(["north", "south", "west", None]),
            "amount": rng.choice([None, *range(-3, 30)]),
            "ts": ts.isoformat(" ", "milliseconds"),
        }
        if before is not None and rng.random() < 0.3:
            after = None
        kind = "c" if before is None else "u" if after is not None else "d"
        yield json.dumps({"before": before, "after": after, "op": kind})
        there.pop(sku) if after is None else there.update({sku: after})


def _entries(rng: random.Random, maybe: Callable[[Any], Any]) -> dict[str, Any]:
    """A map, whose entries are in the order that Flink's hash map gives them: results show them as texts."""
    found = {word: maybe(rng.randrange(9)) for word in rng.sample("abc", 2)}
    return {word: found[word] for word in "acb" if word in found}


def _things() -> Iterator[str]:
    rng = random.Random("things")
    texts = (*WORDS, "12", "-7.25", "true", "2024-02-29", "2024-02-29 23:59:59.987", "10:11:12")

    def maybe(value: Any) -> Any:
        return None if rng.random() < 0.15 else value

    for number in range(40):
        moment = START + dt.timedelta(seconds=rng.randrange(-(10**8), 10**8))
        second = f"{moment:%Y-%m-%d %H:%M:%S}"
        whole = rng.choice([0, 1, -1, rng.randrange(-128, 128), rng.randrange(-(2**31), 2**31)])
        yield json.dumps(
            {
                "n": number,
                "ti": maybe(rng.randrange(-128, 128)),
                "si": maybe(rng.randrange(-(2**15), 2**15)),
                "i": maybe(whole),
                "bi": maybe(whole * rng.choice([1, 2**20, 4_000_000_000])),
                "f": maybe(rng.choice([0.0, 1.5, -2.25, 3e10, float(whole)])),
                "d": maybe(rng.choice([0.0, 0.1, -99.995, 1e15, round(rng.uniform(-300, 300), 4)])),
                "m": maybe(rng.randrange(-(10**8), 10**8) / 1_000),
                "c": maybe(rng.choice(["abcd", "xyz ", "q   "])),
                "s": maybe(rng.choice(texts)),
                "by": maybe(rng.choice(["aGVsbG8=", "", "AQI="])),
                "dy": maybe(f"{moment:%Y-%m-%d}"),
                "t": maybe(f"{moment:%H:%M:%S}"),
                "ts9": maybe(f"{second}.{rng.randrange(10**6):06d}"),
                "ltz": maybe(f"{second}.{rng.randrange(10**3):03d}Z"),
                "ai": maybe([maybe(rng.randrange(9)) for _ in range(rng.randrange(4))]),
                "ms": maybe(_entries(rng, maybe)),
                "r": maybe({"x": maybe(rng.randrange(9)), "y": maybe(rng.choice(WORDS))}),
            },
            ensure_ascii=False,
        )


def write_more_tables(home: Path) -> list[str]:
    """Write the tables as files; return the statements that make them known."""
    things = ", ".join(f"`{name}` {kind}" for name, kind in THINGS.items())
    made = {
        "rates": (_RATES, "csv", _rates()),
        "stock": (f"{_STOCK}, {_KEY}", "debezium-json", _stock()),
        "things": (things, "json", _things()),
    }
    statements = []
    for name, (columns, form, lines) in made.items():
        (home / name).mkdir(parents=True, exist_ok=True)
        (home / name / "rows.txt").write_text("".join(f"{line}\n" for line in lines), "utf-8")
        statements.append(
            f"CREATE TABLE {name} ({columns}) WITH ('connector' = 'filesystem', 'path' = '{home / name}', 'format' = '{form}')"
        )
    return statements
