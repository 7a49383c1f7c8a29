"""Random tables and queries over the whole language, the same for the same seed.

Results must not depend on the order in which rows come: ties are broken by a column without duplicates, and times are not those of the clock.
"""

from __future__ import annotations

import csv
import datetime as dt
import json
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

START = dt.datetime(2024, 3, 1, 12, 0, 0)
WORDS = ("apple", "Pear", "fig tree", "", "Ünï", "a,b", "10", "kiwi-kiwi", "plum")

# name -> columns; the tables have a rowtime `ts` without late rows
TABLES: dict[str, dict[str, str]] = {
    "orders": {
        "id": "BIGINT NOT NULL",
        "k": "INT",
        "s": "STRING",
        "d": "DOUBLE",
        "m": "DECIMAL(10, 2)",
        "b": "BOOLEAN",
        "day": "DATE",
        "ts": "TIMESTAMP(3)",
    },
    "items": {
        "iid": "BIGINT NOT NULL",
        "k": "INT",
        "v": "INT",
        "w": "STRING",
        "ts": "TIMESTAMP(3)",
    },
    "names": {"k": "INT NOT NULL", "name": "STRING", "region": "STRING"},
}
TIMED = ("orders", "items")


def rows_of(name: str, seed: int = 1) -> list[tuple[Any, ...]]:
    """The rows of a table."""
    rng = random.Random(f"{name}-{seed}")
    if name == "names":
        return [(k, rng.choice(WORDS) or None, rng.choice(["north", "south"])) for k in range(6)]
    rows = []
    for number in range(60 if name == "orders" else 45):
        ts = START + dt.timedelta(milliseconds=number * 730 + rng.randrange(2_000))
        key = rng.choice([None, 0, 1, 2, 3, 4, 7])
        word = rng.choice([None, *WORDS])
        if name == "items":
            rows.append((1_000 + number, key, rng.choice([None, *range(-5, 40)]), word, ts))
            continue
        rows.append(
            (
                number,
                key,
                word,
                rng.choice([None, round(rng.uniform(-50, 50), 3)]),
                rng.choice([None, Decimal(rng.randrange(-99_999, 99_999)).scaleb(-2)]),
                rng.choice([None, True, False]),
                rng.choice([None, dt.date(2024, 2, 27) + dt.timedelta(days=rng.randrange(5))]),
                ts,
            )
        )
    return rows


@dataclass(frozen=True)
class Columns:
    """The columns that expressions may use: their SQL, by type."""

    whole: tuple[str, ...]
    text: tuple[str, ...]
    real: tuple[str, ...] = ()
    decimal: tuple[str, ...] = ()
    truth: tuple[str, ...] = ()
    date: tuple[str, ...] = ()
    time: tuple[str, ...] = ()


ORDERS = Columns(("id", "k"), ("s",), ("d",), ("m",), ("b",), ("`day`",), ("ts",))
ITEMS = Columns(("iid", "k", "v"), ("w",), time=("ts",))


class Expressions:
    """Makes random expressions over some columns."""

    def __init__(self, rng: random.Random, columns: Columns) -> None:
        self._rng = rng
        self._columns = columns

    def whole(self, depth: int = 2) -> str:
        rng = self._rng
        if depth == 0 or rng.random() < 0.3:
            return rng.choice([*self._columns.whole, str(rng.randrange(-9, 20))])
        a, b = self.whole(depth - 1), self.whole(depth - 1)
        options = [
            f"({a} + {b})",
            f"({a} - {b})",
            f"({a} * {b})",
            f"({a} / NULLIF({b}, 0))",
            f"MOD({a}, {rng.randrange(2, 9)})",
            f"ABS({a})",
            f"SIGN({a})",
            f"COALESCE({a}, {b})",
            f"CASE WHEN {self.truth(depth - 1)} THEN {a} ELSE {b} END",
            f"CHAR_LENGTH({self.text(depth - 1)})",
            f"POSITION('i' IN {self.text(depth - 1)})",
            f"GREATEST({a}, {b})",
            f"LEAST({a}, {b})",
            f"NULLIF({a}, {b})",
            f"IF({self.truth(depth - 1)}, {a}, {b})",
        ]
        if self._columns.time:
            unit = rng.choice(["HOUR", "MINUTE", "SECOND", "DAY", "MONTH", "YEAR"])
            options += [f"EXTRACT({unit} FROM {self.moment()})"]
        if self._columns.date:
            options += [f"DAYOFYEAR({self.date()})", f"QUARTER({self.date()})"]
        return rng.choice(options)

    def text(self, depth: int = 2) -> str:
        rng = self._rng
        if depth == 0 or rng.random() < 0.3:
            return rng.choice([*self._columns.text, f"'{rng.choice(WORDS)}'"])
        a, b = self.text(depth - 1), self.text(depth - 1)
        number = rng.randrange(1, 5)
        return rng.choice(
            [
                f"UPPER({a})",
                f"LOWER({a})",
                f"({a} || {b})",
                f"CONCAT({a}, '-', {b})",
                f"CONCAT_WS('/', {a}, {b})",
                f"SUBSTRING({a} FROM {number} FOR 3)",
                f"SUBSTRING({a}, {number})",
                f"REPLACE({a}, 'i', 'oo')",
                f"TRIM(BOTH 'a' FROM {a})",
                f"LPAD({a}, 6, '*')",
                f"RPAD({a}, 4, 'xy')",
                f"REVERSE({a})",
                f"REPEAT({a}, 2)",
                f"INITCAP({a})",
                f"LEFT({a}, {number})",
                f"RIGHT({a}, {number})",
                f"REGEXP_REPLACE({a}, '[aeiou]', '.')",
                f"REGEXP_EXTRACT({a}, '([a-z]+)', 1)",
                f"SPLIT_INDEX({a}, '-', 0)",
                f"CAST({self.whole(depth - 1)} AS STRING)",
                f"COALESCE({a}, 'none')",
                f"OVERLAY({a} PLACING 'zz' FROM 2)",
                f"CASE {a} WHEN 'fig tree' THEN 'fig' WHEN {b} THEN 'same' END",
                f"MD5({a})",
                f"TO_BASE64({a})",
            ]
        )

    def truth(self, depth: int = 2) -> str:
        rng = self._rng
        compare = rng.choice(["=", "<>", "<", "<=", ">", ">="])
        if depth == 0 or rng.random() < 0.4:
            return f"{self.whole(0)} {compare} {self.whole(0)}"
        a, b = self.truth(depth - 1), self.truth(depth - 1)
        one, two = self.whole(depth - 1), self.whole(depth - 1)
        text = self.text(depth - 1)
        return rng.choice(
            [
                f"({a} AND {b})",
                f"({a} OR {b})",
                f"NOT ({a})",
                f"({a}) IS NOT TRUE",
                f"({a}) IS UNKNOWN",
                f"{one} IS NULL",
                f"{text} IS NOT NULL",
                f"{one} BETWEEN {self.whole(0)} AND {two}",
                f"{one} IN (1, 2, 3)",
                f"{text} NOT IN ('apple', 'fig tree')",
                f"{text} LIKE '%i%'",
                f"{text} SIMILAR TO '[a-z]+'",
                f"{one} IS DISTINCT FROM {two}",
                f"{text} {compare} {self.text(depth - 1)}",
                f"REGEXP({text}, '^[a-m]')",
            ]
        )

    def real(self) -> str:
        rng = self._rng
        column = rng.choice([*self._columns.real, "CAST(k AS DOUBLE)"])
        return rng.choice(
            [
                f"({column} * 1.5)",
                f"ROUND({column}, 1)",
                f"FLOOR({column})",
                f"CEIL({column})",
                f"SQRT(ABS({column}))",
                f"POWER({column}, 2)",
                f"EXP({column} / 100)",
                f"TRUNCATE({column}, 1)",
                f"ATAN2({column}, 2)",
            ]
        )

    def decimal(self) -> str:
        rng = self._rng
        column = rng.choice([*self._columns.decimal, "CAST(k AS DECIMAL(8, 3))"])
        return rng.choice(
            [
                f"({column} * 1.07)",
                f"({column} + 0.005)",
                f"({column} / 7)",
                f"ROUND({column}, 1)",
                f"CAST({column} AS DECIMAL(12, 1))",
                f"ABS({column})",
                f"(-{column})",
                f"CAST({column} AS INT)",
            ]
        )

    def moment(self) -> str:
        column = self._rng.choice(self._columns.time)
        number = self._rng.randrange(1, 50)
        return self._rng.choice(
            [
                column,
                f"({column} + INTERVAL '{number}' MINUTE)",
                f"({column} - INTERVAL '{number}' HOUR)",
                f"({column} + INTERVAL '1 02:03:04.5' DAY TO SECOND)",
                f"TIMESTAMPADD(DAY, {number}, {column})",
                f"FLOOR({column} TO MINUTE)",
                f"CEIL({column} TO HOUR)",
            ]
        )

    def date(self) -> str:
        column = self._rng.choice([*self._columns.date, "CAST(ts AS DATE)"])
        return self._rng.choice(
            [column, f"({column} + INTERVAL '2' DAY)", f"({column} - INTERVAL '1' MONTH)"]
        )

    def other(self) -> str:
        """An expression of some other type, or over one."""
        choices: list[Callable[[], str]] = [self.real, self.decimal, self.whole, self.text]
        if self._columns.time:
            choices += [
                self.moment,
                lambda: f"DATE_FORMAT({self.moment()}, 'yyyy-MM-dd HH:mm:ss')",
                lambda: f"TIMESTAMPDIFF(MINUTE, {self.moment()}, {self.moment()})",
                lambda: f"CAST({self.moment()} AS STRING)",
            ]
        if self._columns.date:
            choices += [self.date, lambda: f"CAST({self.date()} AS STRING)"]
        choices += [
            lambda: f"CAST({self.truth(1)} AS STRING)",
            lambda: f"TRY_CAST({self.text(1)} AS INT)",
            lambda: f"CAST({self.decimal()} AS STRING)",
            lambda: f"ARRAY[{self.whole(1)}, {self.whole(1)}][1]",
            lambda: f"CARDINALITY(ARRAY[{self.whole(1)}, 3])",
            lambda: "JSON_VALUE('{\"a\": {\"b\": 5}}', '$.a.b')",
            lambda: f"JSON_OBJECT('x' VALUE {self.whole(1)}, 'y' VALUE {self.text(0)})",
        ]
        return self._rng.choice(choices)()

    def any(self) -> str:
        return self._rng.choice([self.whole, self.text, self.truth, self.other, self.other])()

    def aggregate(self) -> str:
        rng = self._rng
        whole = self.whole(1)
        options = [
            "COUNT(*)",
            f"COUNT({whole})",
            f"SUM({whole})",
            f"MIN({whole})",
            f"MAX({whole})",
            f"AVG({whole})",
            f"COUNT(DISTINCT {whole})",
            f"SUM(DISTINCT {whole})",
            f"MAX({self.text(1)})",
            f"MIN({self.text(0)})",
            f"SUM({self.decimal()})",
            f"AVG({self.decimal()})",
            f"COUNT(*) FILTER (WHERE {self.truth(1)})",
            f"SUM({whole}) FILTER (WHERE {self.truth(1)})",
            f"STDDEV_POP({self.real()})",
            f"VAR_SAMP({self.real()})",
        ]
        if self._columns.time:
            options += ["MAX(ts)", "MIN(ts)"]
        return rng.choice(options)


class Queries:
    """Makes random queries, kind by kind."""

    def __init__(self, seed: int) -> None:
        self._rng = random.Random(seed)
        self.orders = Expressions(self._rng, ORDERS)
        self.items = Expressions(self._rng, ITEMS)
        self.kinds: dict[str, Callable[[], str]] = {
            "case": self.case,
            "deduplicate": self.deduplicate,
            "distinct": self.distinct,
            "group": self.group,
            "group_window": self.group_window,
            "grouping_sets": self.grouping_sets,
            "interval_join": self.interval_join,
            "join": self.join,
            "join_of_groups": self.join_of_groups,
            "join_three": self.join_three,
            "match": self.match,
            "nested_group": self.nested_group,
            "order_limit": self.order_limit,
            "over": self.over,
            "projection": self.projection,
            "scalar_subquery": self.scalar_subquery,
            "semi": self.semi,
            "session": self.session,
            "set_operation": self.set_operation,
            "top": self.top,
            "top_of_groups": self.top_of_groups,
            "total": self.total,
            "unnest": self.unnest,
            "values": self.values,
            "window": self.window,
            "window_join": self.window_join,
            "window_top": self.window_top,
            "window_total": self.window_total,
            "with": self.common_tables,
        }

    def _side(self) -> tuple[str, Expressions, str]:
        """A table, its expressions, and its column without duplicates."""
        if self._rng.random() < 0.6:
            return "orders", self.orders, "id"
        return "items", self.items, "iid"

    def _key(self, table: str) -> str:
        choices = ["k", "MOD(id, 3)", "s", "b", "`day`"] if table == "orders" else ["k", "w", "v"]
        return self._rng.choice(choices)

    def projection(self) -> str:
        table, of, unique = self._side()
        shown = ", ".join(f"{of.any()} AS c{n}" for n in range(4))
        return f"SELECT {unique}, {shown} FROM {table} WHERE {of.truth()}"

    def group(self) -> str:
        table, of, _ = self._side()
        key = self._key(table)
        having = (
            f" HAVING COUNT(*) > {self._rng.randrange(1, 6)}" if self._rng.random() < 0.4 else ""
        )
        shown = ", ".join(f"{of.aggregate()} AS a{n}" for n in range(3))
        return f"SELECT {key} AS key, {shown} FROM {table} GROUP BY {key}{having}"

    def total(self) -> str:
        table, of, _ = self._side()
        shown = ", ".join(f"{of.aggregate()} AS a{n}" for n in range(4))
        return f"SELECT {shown} FROM {table} WHERE {of.truth(1)}"

    def nested_group(self) -> str:
        table, of, _ = self._side()
        key = self._key(table)
        inner = (
            f"SELECT {key} AS key, COUNT(*) AS n, {of.aggregate()} AS a FROM {table} GROUP BY {key}"
        )
        return f"SELECT n, COUNT(*) AS keys, MAX(key) AS most FROM ({inner}) GROUP BY n"

    def distinct(self) -> str:
        table, of, _ = self._side()
        return f"SELECT DISTINCT {self._key(table)} AS a, {of.truth(1)} AS b FROM {table}"

    def grouping_sets(self) -> str:
        rng = self._rng
        by = rng.choice(["ROLLUP (k, b)", "CUBE (k, b)", "GROUPING SETS ((k, b), (b), ())"])
        return (
            f"SELECT k, b, {self.orders.aggregate()} AS a, COUNT(*) AS n FROM orders GROUP BY {by}"
        )

    def _window(self, table: str) -> str:
        time = f"TABLE {table}, DESCRIPTOR(ts)"
        return self._rng.choice(
            [
                f"TUMBLE({time}, INTERVAL '10' SECOND)",
                f"TUMBLE({time}, INTERVAL '7' SECOND, INTERVAL '2' SECOND)",
                f"HOP({time}, INTERVAL '5' SECOND, INTERVAL '15' SECOND)",
                f"CUMULATE({time}, INTERVAL '4' SECOND, INTERVAL '20' SECOND)",
            ]
        )

    def window(self) -> str:
        table, of, _ = self._side()
        key = self._key(table)
        shown = ", ".join(f"{of.aggregate()} AS a{n}" for n in range(2))
        return (
            f"SELECT window_start, window_end, {key} AS key, {shown} FROM TABLE({self._window(table)}) "
            f"GROUP BY window_start, window_end, {key}"
        )

    def window_total(self) -> str:
        table, of, _ = self._side()
        return (
            f"SELECT window_start, window_end, {of.aggregate()} AS a, {of.aggregate()} AS c "
            f"FROM TABLE({self._window(table)}) GROUP BY window_start, window_end"
        )

    def session(self) -> str:
        gap = self._rng.randrange(2, 9)
        return (
            f"SELECT k, window_start, window_end, COUNT(*) AS n, {self.orders.aggregate()} AS a FROM TABLE("
            f"SESSION(TABLE orders PARTITION BY k, DESCRIPTOR(ts), INTERVAL '{gap}' SECOND)) "
            "GROUP BY k, window_start, window_end"
        )

    def group_window(self) -> str:
        kind = self._rng.choice(
            [
                ("TUMBLE", "ts, INTERVAL '10' SECOND"),
                ("HOP", "ts, INTERVAL '5' SECOND, INTERVAL '10' SECOND"),
                ("SESSION", "ts, INTERVAL '4' SECOND"),
            ]
        )
        window = f"{kind[0]}({kind[1]})"
        return (
            f"SELECT k, {kind[0]}_START({kind[1]}) AS b, {kind[0]}_END({kind[1]}) AS e, {self.orders.aggregate()} AS a "
            f"FROM orders GROUP BY k, {window}"
        )

    def join(self) -> str:
        kind = self._rng.choice(["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"])
        more = self._rng.choice(["", " AND o.id < i.v", " AND o.s <> i.w", " AND o.b"])
        return f"SELECT o.id, i.iid, o.s, i.v FROM orders AS o {kind} items AS i ON o.k = i.k{more}"

    def join_of_groups(self) -> str:
        kind = self._rng.choice(["JOIN", "LEFT JOIN", "FULL JOIN"])
        return (
            f"SELECT a.k, a.n, b.most FROM (SELECT k, COUNT(*) AS n FROM orders GROUP BY k) AS a {kind} "
            f"(SELECT k, MAX(v) AS most FROM items GROUP BY k) AS b ON a.k = b.k"
        )

    def join_three(self) -> str:
        return (
            "SELECT o.id, i.iid, n.name FROM orders AS o JOIN items AS i ON o.k = i.k AND "
            f"i.v > {self._rng.randrange(0, 30)} LEFT JOIN names AS n ON n.k = o.k"
        )

    def interval_join(self) -> str:
        kind = self._rng.choice(["JOIN", "LEFT JOIN", "FULL JOIN", "RIGHT JOIN"])
        before, after = self._rng.randrange(0, 8), self._rng.randrange(0, 8)
        return (
            f"SELECT o.id, i.iid FROM orders AS o {kind} items AS i ON o.k = i.k AND o.ts BETWEEN "
            f"i.ts - INTERVAL '{before}' SECOND AND i.ts + INTERVAL '{after}' SECOND"
        )

    def window_join(self) -> str:
        kind = self._rng.choice(["JOIN", "LEFT JOIN", "FULL JOIN"])
        size = self._rng.randrange(3, 12)
        side = "SELECT * FROM TABLE(TUMBLE(TABLE {0}, DESCRIPTOR(ts), INTERVAL '{1}' SECOND))"
        return (
            f"SELECT l.id, r.iid, l.window_start, r.window_end FROM ({side.format('orders', size)}) AS l {kind} "
            f"({side.format('items', size)}) AS r ON l.k = r.k AND l.window_start = r.window_start AND l.window_end = r.window_end"
        )

    def semi(self) -> str:
        rng = self._rng
        test = rng.choice(
            [
                f"k IN (SELECT k FROM items WHERE v > {rng.randrange(40)})",
                f"EXISTS (SELECT 1 FROM items AS i WHERE i.k = o.k AND i.v > {rng.randrange(40)})",
                f"NOT EXISTS (SELECT 1 FROM items AS i WHERE i.k = o.k AND i.v < {rng.randrange(20)})",
                f"k NOT IN (SELECT k FROM names WHERE region = '{rng.choice(['north', 'south'])}')",
                f"id IN (SELECT v FROM items WHERE v IS NOT NULL AND iid > {1_000 + rng.randrange(40)})",
            ]
        )
        return f"SELECT id, k, s FROM orders AS o WHERE {test}"

    def scalar_subquery(self) -> str:
        function = self._rng.choice(["MAX(v)", "COUNT(*)", "AVG(v)", "MIN(v)"])
        return f"SELECT id FROM orders WHERE id > (SELECT {function} FROM items WHERE {self.items.truth(1)})"

    def set_operation(self) -> str:
        kind = self._rng.choice(
            ["UNION ALL", "UNION", "INTERSECT", "INTERSECT ALL", "EXCEPT", "EXCEPT ALL"]
        )
        return (
            f"SELECT k, s FROM orders WHERE {self.orders.truth(1)} {kind} "
            f"SELECT k, w FROM items WHERE {self.items.truth(1)}"
        )

    def top(self) -> str:
        table, _, unique = self._side()
        order = self._rng.choice([f"ts DESC, {unique}", f"{unique} DESC", f"k, {unique}"])
        rank = self._rng.choice([", place", ""])
        return (
            f"SELECT {unique}, ts{rank} FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY {order}) AS place "
            f"FROM {table}) WHERE place <= {self._rng.randrange(1, 5)}"
        )

    def top_of_groups(self) -> str:
        return (
            "SELECT * FROM (SELECT k, n, ROW_NUMBER() OVER (ORDER BY n DESC, k) AS place FROM "
            "(SELECT k, COUNT(*) AS n FROM orders WHERE k IS NOT NULL GROUP BY k)) "
            f"WHERE place <= {self._rng.randrange(1, 5)}"
        )

    def deduplicate(self) -> str:
        order = self._rng.choice(["ASC", "DESC"])
        return (
            f"SELECT k, ts FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY ts {order}) AS place "
            "FROM orders) WHERE place = 1"
        )

    def window_top(self) -> str:
        return (
            "SELECT id, window_start, place FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end, k "
            f"ORDER BY id {self._rng.choice(['ASC', 'DESC'])}) AS place FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(ts), "
            f"INTERVAL '10' SECOND))) WHERE place <= {self._rng.randrange(1, 4)}"
        )

    def order_limit(self) -> str:
        table, _, unique = self._side()
        return (
            f"SELECT {unique}, k FROM {table} ORDER BY k {self._rng.choice(['ASC', 'DESC'])}, {unique} "
            f"LIMIT {self._rng.randrange(1, 20)}"
        )

    def over(self) -> str:
        rng = self._rng
        frame = rng.choice(
            [
                "ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW",
                "RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW",
                f"ROWS BETWEEN {rng.randrange(1, 5)} PRECEDING AND CURRENT ROW",
                f"RANGE BETWEEN INTERVAL '{rng.randrange(2, 15)}' SECOND PRECEDING AND CURRENT ROW",
            ]
        )
        call = rng.choice(
            ["SUM(id)", "COUNT(*)", "MAX(d)", "MIN(s)", "AVG(id)", "COUNT(DISTINCT b)"]
        )
        return f"SELECT id, {call} OVER (PARTITION BY k ORDER BY ts {frame}) AS a FROM orders"

    def common_tables(self) -> str:
        return (
            f"WITH a AS (SELECT k, {self.orders.aggregate()} AS x FROM orders GROUP BY k), "
            f"b AS (SELECT k, COUNT(*) AS y FROM items GROUP BY k) "
            "SELECT a.k, x, y FROM a JOIN b ON a.k = b.k"
        )

    def unnest(self) -> str:
        first, second = self.orders.whole(1), self.orders.whole(1)
        return f"SELECT id, e FROM orders CROSS JOIN UNNEST(ARRAY[{first}, {second}]) AS u (e)"

    def values(self) -> str:
        rng = self._rng
        rows = ", ".join(f"({rng.randrange(9)}, '{rng.choice(WORDS)}')" for _ in range(4))
        return f"SELECT a, b, COUNT(*) AS n FROM (VALUES {rows}) AS v (a, b) GROUP BY a, b"

    def case(self) -> str:
        return (
            f"SELECT id, CASE WHEN {self.orders.truth()} THEN {self.orders.text(1)} WHEN {self.orders.truth()} "
            f"THEN {self.orders.text(1)} ELSE 'else' END AS c FROM orders"
        )

    def match(self) -> str:
        least = self._rng.randrange(5, 40)
        return (
            "SELECT * FROM items MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts MEASURES FIRST(low.iid) AS a, LAST(high.iid) AS z, "
            f"COUNT(high.v) AS n AFTER MATCH SKIP PAST LAST ROW PATTERN (low high{self._rng.choice(['+', '', '{1,2}'])} more) DEFINE low AS low.v < {least}, "
            f"high AS high.v > 5, more AS more.v >= 0)"
        )


def queries(count: int, seed: int = 11) -> list[tuple[str, str]]:
    """So many different queries with the names of their kinds, about as many of each kind."""
    made: dict[str, str] = {}
    number = 0
    while len(made) < count:
        maker = Queries(seed * 100_003 + number)
        for kind, make in maker.kinds.items():
            made.setdefault(make(), kind)
        number += 1
    return [(kind, query) for query, kind in list(made.items())[:count]]


def write_tables(home: Path) -> list[str]:
    """Write the tables as CSV files; return the statements that make them known."""
    statements = []
    for name, columns in TABLES.items():
        folder = home / name
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / "rows.csv").open("w", newline="", encoding="utf-8") as stream:
            writer = csv.writer(stream, lineterminator="\n")
            for row in rows_of(name):
                writer.writerow(["NULL" if value is None else _as_text(value) for value in row])
        shown = ", ".join(f"`{column}` {kind}" for column, kind in columns.items())
        if name in TIMED:
            shown += ", WATERMARK FOR ts AS ts - INTERVAL '5' SECOND"
        statements.append(
            f"CREATE TABLE {name} ({shown}) WITH ('connector' = 'filesystem', 'path' = '{folder}', "
            "'format' = 'csv', 'csv.null-literal' = 'NULL')"
        )
    return statements


def _as_text(value: Any) -> str:
    if isinstance(value, dt.datetime):
        return value.isoformat(" ", "milliseconds")
    return str(value).lower() if isinstance(value, bool) else str(value)


def shown(value: Any) -> Any:
    """A value of a result as JSON has it; floating point numbers to nine digits, and what is left of sums of rounded ones is 0."""
    if isinstance(value, float):
        return float(f"{value:.9g}") if abs(value) > 1e-12 else 0.0
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, bytes | bytearray):
        return value.hex()
    if isinstance(value, dict):
        return sorted([shown(key), shown(each)] for key, each in value.items())
    if isinstance(value, dt.datetime):
        return value.replace(tzinfo=None).isoformat(" ", "microseconds")
    if isinstance(value, Decimal | dt.date | dt.time | dt.timedelta):
        return str(value)
    return [shown(each) for each in value]


class FinalTable:
    """Folds a changelog."""

    def __init__(self) -> None:
        self._rows: Counter[str] = Counter()

    def add(self, row: Any, *, comes: bool) -> None:
        self._rows[json.dumps([shown(each) for each in row])] += 1 if comes else -1

    def rows(self) -> list[str]:
        """All rows, sorted; one that was taken away too often is shown with a minus."""
        gone = [f"-{row}" for row, count in self._rows.items() if count < 0]
        return sorted([*gone, *(row for row, count in self._rows.items() for _ in range(count))])
