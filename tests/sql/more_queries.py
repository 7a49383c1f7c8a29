"""More random queries: those over changelogs, versions and windows of all kinds, over columns of all types, and nested ones."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

from tests.sql.random_queries import ITEMS, ORDERS, Expressions

CASTS: dict[str, tuple[str, ...]] = {
    "ti": ("SMALLINT", "DOUBLE", "STRING", "BOOLEAN", "DECIMAL(3, 1)"),
    "si": ("TINYINT", "INT", "FLOAT", "CHAR(3)", "BOOLEAN"),
    "i": ("TINYINT", "SMALLINT", "BIGINT", "DECIMAL(6, 2)", "STRING", "VARCHAR(2)", "FLOAT"),
    "bi": ("INT", "SMALLINT", "DOUBLE", "FLOAT", "DECIMAL(20, 0)", "STRING"),
    "f": ("INT", "BIGINT", "DOUBLE", "DECIMAL(12, 4)", "STRING", "BOOLEAN"),
    "d": ("INT", "TINYINT", "FLOAT", "DECIMAL(9, 2)", "STRING", "BIGINT"),
    "m": ("INT", "DOUBLE", "DECIMAL(6, 1)", "DECIMAL(38, 10)", "STRING", "BOOLEAN"),
    "c": ("STRING", "VARCHAR(2)", "CHAR(6)"),
    "s": ("INT", "DOUBLE", "DECIMAL(8, 2)", "BOOLEAN", "DATE", "TIMESTAMP(3)", "TIME", "BYTES"),
    "by": ("STRING", "BINARY(2)", "VARBINARY(1)"),
    "dy": ("STRING", "TIMESTAMP(3)", "TIMESTAMP_LTZ(3)"),
    "t": ("STRING", "CHAR(5)"),
    "ts9": ("STRING", "TIMESTAMP(0)", "TIMESTAMP(3)", "DATE", "TIME", "TIMESTAMP_LTZ(6)"),
    "ltz": ("STRING", "TIMESTAMP(3)", "DATE", "TIME", "TIMESTAMP_LTZ(0)"),
    "ai": ("STRING", "ARRAY<BIGINT>", "ARRAY<STRING>"),
    "ms": ("STRING", "MAP<STRING, BIGINT>", "MAP<STRING, STRING>"),
    "r": ("STRING", "ROW<x BIGINT, y STRING>", "ROW<x STRING, y CHAR(2)>"),
}


class MoreQueries:
    """Makes random queries, kind by kind."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._begin("")
        self.kinds: dict[str, Callable[[], str]] = {
            "aggregates_of_changes": self.aggregates_of_changes,
            "cast": self.cast,
            "changes": self.changes,
            "collected": self.collected,
            "correlated": self.correlated,
            "deduplicate_more": self.deduplicate,
            "functions_of_columns": self.functions_of_columns,
            "grouping": self.grouping,
            "interval_semi": self.interval_semi,
            "join_of_changes": self.join_of_changes,
            "join_of_groups_more": self.join_of_groups,
            "lateral": self.lateral,
            "match_more": self.match,
            "neighbours": self.neighbours,
            "nested_types": self.nested_types,
            "quantified": self.quantified,
            "sets_of_groups": self.sets_of_groups,
            "temporal": self.temporal,
            "top_of_changes": self.top_of_changes,
            "top_of_groups_more": self.top_of_groups,
            "distinct_more": self.distinct,
            "hints": self.hints,
            "over_more": self.over,
            "session_more": self.session,
            "sets_of_sets": self.sets_of_sets,
            "unnest_more": self.unnest,
            "window_columns": self.window_columns,
            "window_deduplicate": self.window_deduplicate,
            "window_join_more": self.window_join,
            "window_more": self.window,
            "window_of_windows": self.window_of_windows,
            "window_top_more": self.window_top,
        }

    def _begin(self, kind: str) -> None:
        self._rng = random.Random(f"more-{self._seed}-{kind}")
        self.orders = Expressions(self._rng, ORDERS)
        self.items = Expressions(self._rng, ITEMS)

    def make(self) -> Iterator[tuple[str, str]]:
        """Yield one query of each kind with the name of its kind; what one kind makes does not change with another."""
        for kind, maker in self.kinds.items():
            self._begin(kind)
            yield kind, maker()

    def _pick(self, *options: str) -> str:
        return self._rng.choice(options)

    def _seconds(self, least: int, most: int) -> str:
        return f"INTERVAL '{self._rng.randrange(least, most)}' SECOND"

    def _window(self, table: str) -> str:
        step = self._rng.randrange(2, 6)
        times = self._rng.randrange(2, 5)
        offset = self._pick("", f", {self._seconds(1, 5)}", ", INTERVAL '-1' SECOND")
        of = f"TABLE {table}, DESCRIPTOR(ts)"
        return self._pick(
            f"TUMBLE({of}, INTERVAL '{step * times}' SECOND{offset})",
            f"HOP({of}, INTERVAL '{step}' SECOND, INTERVAL '{step * times}' SECOND{offset})",
            f"CUMULATE({of}, INTERVAL '{step}' SECOND, INTERVAL '{step * times}' SECOND{offset})",
        )

    def window(self) -> str:
        key = self._pick("k", "k, b", "MOD(id, 4)")
        having = self._pick("", "", " HAVING COUNT(*) > 1", " HAVING MAX(id) > 20")
        return (
            f"SELECT {key}, window_start, window_end, COUNT(*) AS n, {self.orders.aggregate()} AS a, {self.orders.aggregate()} AS z "
            f"FROM TABLE({self._window('orders')}) GROUP BY {key}, window_start, window_end{having}"
        )

    def window_columns(self) -> str:
        return f"SELECT iid, window_start, window_end, window_time FROM TABLE({self._window('items')}) WHERE {self.items.truth(1)}"

    def window_of_windows(self) -> str:
        inner = (
            "SELECT window_start AS b, window_end AS e, window_time AS ts, k, COUNT(*) AS n, MAX(id) AS most "
            "FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(ts), INTERVAL '5' SECOND)) GROUP BY window_start, window_end, window_time, k"
        )
        return (
            f"WITH small AS ({inner}) SELECT window_start, window_end, {self._pick('SUM(n)', 'MAX(n)', 'AVG(n)', 'MIN(most)')} AS a, COUNT(DISTINCT k) AS ks "
            f"FROM TABLE(TUMBLE(TABLE small, DESCRIPTOR(ts), INTERVAL '{self._pick('10', '15', '20')}' SECOND)) GROUP BY window_start, window_end"
        )

    def window_top(self) -> str:
        if self._rng.random() < 0.5:
            inner = f"SELECT window_start, window_end, k, COUNT(*) AS n, MAX(id) AS most FROM TABLE({self._window('orders')}) GROUP BY window_start, window_end, k"
            order = self._pick("n DESC, k", "most", "most DESC", "n, most")
            shown = "window_start, k, n, place"
        else:
            inner, shown = f"SELECT * FROM TABLE({self._window('orders')})", "window_end, id, place"
            order = self._pick("id", "ts DESC, id", "d DESC, id", "s, id")
        by = self._pick("window_start, window_end", "window_start, window_end, k")
        return (
            f"SELECT {shown} FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY {by} ORDER BY {order}) AS place FROM ({inner})) "
            f"WHERE place <= {self._rng.randrange(1, 4)}"
        )

    def window_deduplicate(self) -> str:
        key = self._pick("", ", k", ", b")
        return (
            f"SELECT window_start, id FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end{key} "
            f"ORDER BY ts {self._pick('ASC', 'DESC')}) AS place FROM TABLE({self._window('orders')})) WHERE place = 1"
        )

    def window_join(self) -> str:
        size = self._rng.randrange(3, 12)
        side = "SELECT * FROM TABLE(TUMBLE(TABLE {0}, DESCRIPTOR(ts), INTERVAL '{1}' SECOND))"
        left, right = side.format("orders", size), side.format("items", size)
        same = "l.window_start = r.window_start AND l.window_end = r.window_end"
        if self._rng.random() < 0.6:
            test = self._pick("EXISTS", "NOT EXISTS")
            return f"SELECT l.id, l.window_end FROM ({left}) AS l WHERE {test} (SELECT * FROM ({right}) AS r WHERE l.k = r.k AND {same})"
        return (
            f"SELECT l.id, r.iid FROM ({left}) AS l {self._pick('JOIN', 'LEFT JOIN', 'RIGHT JOIN', 'FULL JOIN')} ({right}) AS r "
            f"ON l.k = r.k AND {same} AND l.id < r.v"
        )

    def interval_semi(self) -> str:
        return (
            f"SELECT id FROM orders AS o WHERE {self._pick('EXISTS', 'NOT EXISTS')} (SELECT 1 FROM items AS i WHERE i.k = o.k AND "
            f"i.ts BETWEEN o.ts - {self._seconds(0, 6)} AND o.ts + {self._seconds(0, 6)})"
        )

    def temporal(self) -> str:
        kind = self._pick("JOIN", "LEFT JOIN")
        last = "SELECT k, v, w, ts FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY ts DESC) AS place FROM items WHERE k IS NOT NULL) WHERE place = 1"
        more = self._pick("", " AND o.id > 10", " AND o.b")
        if self._rng.random() < 0.5:
            kept = self._pick("", " WHERE r.rate > 2", " WHERE o.id < 50")
            return (
                f"SELECT o.id, r.rate, r.ts FROM orders AS o {kind} rates FOR SYSTEM_TIME AS OF o.ts AS r "
                f"ON o.k = r.k{more}{kept}"
            )
        return f"WITH r AS ({last}) SELECT o.id, r.v, r.w FROM orders AS o {kind} r FOR SYSTEM_TIME AS OF o.ts ON o.k = r.k{more}"

    def changes(self) -> str:
        return self._pick(
            f"SELECT sku, place, amount FROM stock WHERE amount > {self._rng.randrange(20)}",
            f"SELECT sku, amount * {self._rng.randrange(2, 9)} AS a FROM stock WHERE place = '{self._pick('north', 'south')}'",
            f"SELECT place, amount FROM stock WHERE place IS {self._pick('', 'NOT ')}NULL OR sku > {self._rng.randrange(7)}",
            f"SELECT DISTINCT place, amount > {self._rng.randrange(20)} AS many FROM stock",
        )

    def _amounts(self) -> str:
        return self._pick(
            "SUM(amount)",
            "AVG(amount)",
            "MIN(amount)",
            "MAX(amount)",
            "COUNT(amount)",
            "COUNT(DISTINCT amount)",
            "SUM(DISTINCT amount)",
            "MAX(ts)",
            "MIN(place)",
            f"COUNT(*) FILTER (WHERE amount > {self._rng.randrange(20)})",
            "STDDEV_POP(amount)",
            f"MAX(amount) FILTER (WHERE sku <> {self._rng.randrange(9)})",
        )

    def aggregates_of_changes(self) -> str:
        shown = ", ".join(f"{self._amounts()} AS a{n}" for n in range(3))
        having = self._pick("", "", " HAVING COUNT(*) > 1", " HAVING SUM(amount) > 10")
        by = self._pick("", " GROUP BY place", " GROUP BY MOD(sku, 3)", " GROUP BY ROLLUP (place)")
        return f"SELECT {shown}, COUNT(*) AS n FROM stock{by}{having}"

    def join_of_changes(self) -> str:
        kind = self._pick("JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN")
        return self._pick(
            f"SELECT o.id, s.place, s.amount FROM orders AS o {kind} stock AS s ON o.k = s.sku",
            f"SELECT a.sku, b.sku AS other FROM stock AS a {kind} stock AS b ON a.place = b.place AND a.amount < b.amount",
            f"SELECT n.name, s.amount FROM names AS n {kind} stock AS s ON n.k = s.sku AND s.amount > {self._rng.randrange(20)}",
            f"SELECT id FROM orders WHERE k {self._pick('IN', 'NOT IN')} (SELECT sku FROM stock WHERE amount > {self._rng.randrange(15)})",
            f"SELECT sku FROM stock AS s WHERE {self._pick('EXISTS', 'NOT EXISTS')} (SELECT * FROM items AS i WHERE i.v = s.amount)",
        )

    def top_of_changes(self) -> str:
        by = self._pick("", "PARTITION BY place ")
        order = self._pick("amount DESC, sku", "amount, sku DESC", "sku", "ts DESC")
        shown = self._pick("sku, amount", "sku, amount, p", "place, sku")
        return (
            f"SELECT {shown} FROM (SELECT *, ROW_NUMBER() OVER ({by}ORDER BY {order}) AS p FROM stock) "
            f"WHERE p <= {self._rng.randrange(1, 5)}"
        )

    def top_of_groups(self) -> str:
        value = self._pick("SUM(id)", "COUNT(*)", "MAX(d)", "MIN(id)", "AVG(m)")
        by = self._pick("", "PARTITION BY b ")
        last = self._rng.randrange(2, 5)
        kept = self._pick(f"p <= {last}", f"p BETWEEN 2 AND {last}", "p = 1")
        shown = self._pick("k, b, x", "k, b, x, p")
        return (
            f"SELECT {shown} FROM (SELECT *, ROW_NUMBER() OVER ({by}ORDER BY x {self._pick('DESC', 'ASC')}, k, b) AS p "
            f"FROM (SELECT k, b, {value} AS x FROM orders GROUP BY k, b)) WHERE {kept}"
        )

    def deduplicate(self) -> str:
        table, unique, keys = self._rng.choice(
            [("orders", "id", ("k", "s", "k, b", "`day`")), ("items", "iid", ("k", "w", "v"))]
        )
        by = self._rng.choice(keys)
        inner = (
            f"SELECT {unique}, {by} FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY {by} ORDER BY ts {self._pick('ASC', 'DESC')}) AS place "
            f"FROM {table}{self._pick('', f' WHERE {unique} > 20')}) WHERE place {self._pick('= 1', '<= 1', '< 2')}"
        )
        return self._pick(inner, inner, f"SELECT COUNT(*) AS n, SUM({unique}) AS x FROM ({inner})")

    def join_of_groups(self) -> str:
        kind = self._pick("JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN")
        one = f"SELECT k, {self.orders.aggregate()} AS x, COUNT(*) AS n FROM orders GROUP BY k"
        two = f"SELECT {self._pick('k', 'v')} AS k, COUNT(*) AS n FROM items GROUP BY {{0}}"
        two = two.format("k" if "SELECT k" in two else "v")
        more = self._pick("", " AND a.n > b.n", " AND a.n = b.n")
        if self._rng.random() < 0.3:
            test = self._pick("EXISTS", "NOT EXISTS")
            return f"SELECT a.k, a.x FROM ({one}) AS a WHERE {test} (SELECT * FROM ({two}) AS b WHERE a.k = b.k{more})"
        return f"SELECT a.k, a.x, b.k AS o, b.n FROM ({one}) AS a {kind} ({two}) AS b ON a.k = b.k{more}"

    def sets_of_groups(self) -> str:
        kind = self._pick(
            "UNION", "UNION ALL", "INTERSECT", "INTERSECT ALL", "EXCEPT", "EXCEPT ALL"
        )
        one = f"SELECT k, COUNT(*) AS n FROM orders WHERE {self.orders.truth(1)} GROUP BY k"
        two = f"SELECT k, COUNT(*) AS n FROM items WHERE {self.items.truth(1)} GROUP BY k"
        sets = f"({one}) {kind} ({two})"
        if kind == "EXCEPT ALL":  # whose changes Flink counts wrongly
            return sets
        return self._pick(sets, f"SELECT n, COUNT(*) AS ks FROM ({sets}) GROUP BY n")

    def distinct(self) -> str:
        condition = self._pick("id > 20", "b", "k = 2", "s IS NOT NULL")
        calls = (
            "COUNT(DISTINCT k)",
            "COUNT(DISTINCT s)",
            f"COUNT(DISTINCT k) FILTER (WHERE {condition})",
            f"SUM(DISTINCT k) FILTER (WHERE {condition})",
            "AVG(DISTINCT k)",
            "MAX(DISTINCT id)",
            f"COUNT(*) FILTER (WHERE {condition})",
        )
        shown = ", ".join(f"{each} AS a{n}" for n, each in enumerate(self._rng.sample(calls, 3)))
        by = self._pick("", " GROUP BY b", " GROUP BY MOD(id, 5)")
        return f"SELECT {shown} FROM orders{by}"

    def hints(self) -> str:
        ttl = self._pick("'o' = '1d', 'i' = '12h'", "'i' = '2h'")
        kind = self._pick("JOIN", "LEFT JOIN")
        return self._pick(
            f"SELECT /*+ STATE_TTL({ttl}) */ o.id, i.iid FROM orders AS o {kind} items AS i ON o.k = i.k AND i.v > {self._rng.randrange(30)}",
            f"SELECT /*+ STATE_TTL('o' = '3h') */ k, COUNT(*) AS n FROM orders AS o WHERE id > {self._rng.randrange(40)} GROUP BY k",
            f"SELECT id, s FROM orders /*+ OPTIONS('csv.null-literal' = '{self._pick('apple', 'plum', 'Pear')}', 'csv.ignore-parse-errors' = 'true') */ WHERE id > {self._rng.randrange(50)}",
        )

    def over(self) -> str:
        calls = ("SUM(id)", "COUNT(s)", "MIN(d)", "MAX(id)", "AVG(k)", "COUNT(DISTINCT k)")
        first, second = self._rng.sample(calls, 2)
        frame = self._pick(
            f"ROWS BETWEEN {self._rng.randrange(6)} PRECEDING AND CURRENT ROW",
            f"RANGE BETWEEN {self._seconds(1, 9)} PRECEDING AND CURRENT ROW",
            "ROWS UNBOUNDED PRECEDING",
        )
        by = self._pick("", "PARTITION BY b ", "PARTITION BY k, b ")
        inner = f"SELECT id, {first} OVER w AS x, {second} OVER w AS y FROM orders WINDOW w AS ({by}ORDER BY ts {frame})"
        return self._pick(inner, f"SELECT x, COUNT(*) AS n FROM ({inner}) GROUP BY x")

    def session(self) -> str:
        gap = self._seconds(1, 6)
        by, key = (
            self._pick("", " PARTITION BY k", " PARTITION BY k, b"),
            "window_start, window_end",
        )
        names = by.removeprefix(" PARTITION BY ")
        shown = f"{names}, {key}" if names else key
        inner = (
            f"SELECT {shown}, COUNT(*) AS n, {self.orders.aggregate()} AS a FROM TABLE("
            f"SESSION(TABLE orders{by}, DESCRIPTOR(ts), {gap})) GROUP BY {shown}"
        )
        return self._pick(inner, f"SELECT n, COUNT(*) AS c FROM ({inner}) GROUP BY n")

    def sets_of_sets(self) -> str:
        parts = [
            f"SELECT k FROM orders WHERE id > {self._rng.randrange(50)}",
            f"SELECT k FROM items WHERE v > {self._rng.randrange(30)}",
            f"SELECT k FROM names WHERE k < {self._rng.randrange(1, 6)}",
        ]
        self._rng.shuffle(parts)
        kinds = ("UNION", "UNION ALL", "INTERSECT", "EXCEPT")
        one, two = self._rng.choice(kinds), self._rng.choice(kinds)
        first, second, third = parts
        return self._pick(
            f"{first} {one} {second} {two} {third}", f"{first} {one} ({second} {two} {third})"
        )

    def correlated(self) -> str:
        what = self._pick("MAX(v)", "COUNT(*)", "SUM(v)", "MIN(w)")
        compare = self._pick("<", ">", "=", "<>")
        return self._pick(
            f"SELECT id, (SELECT {what} FROM items AS i WHERE i.k = o.k) AS x FROM orders AS o",
            f"SELECT id FROM orders AS o WHERE id {compare} (SELECT COUNT(*) FROM items AS i WHERE i.k = o.k)",
            f"SELECT k, (SELECT {what} FROM items) AS x FROM names",
            "SELECT id FROM orders AS o WHERE (k, s) IN (SELECT k, w FROM items)",
            f"SELECT id FROM orders AS o WHERE b OR EXISTS (SELECT 1 FROM items AS i WHERE i.k = o.k AND i.v > {self._rng.randrange(30)})",
            f"SELECT n.k, n.name FROM names AS n WHERE n.k {self._pick('IN', 'NOT IN')} (SELECT o.k FROM orders AS o WHERE o.k IS NOT NULL AND o.id > {self._rng.randrange(40)})",
        )

    def quantified(self) -> str:
        return self._pick(
            f"SELECT id FROM orders WHERE id {self._pick('>', '<', '=', '<>')} {self._pick('ALL', 'ANY', 'SOME')} (SELECT v FROM items WHERE v IS NOT NULL)",
            f"SELECT id FROM orders WHERE k {self._pick('IN', 'NOT IN')} (SELECT k FROM items WHERE iid < {1_000 + self._rng.randrange(12)})",
            f"SELECT id, k {self._pick('IN', 'NOT IN')} (1, 2, NULL) AS x FROM orders",
            f"SELECT id, s {self._pick('LIKE', 'NOT LIKE')} '{self._pick('%e', 'P_ar', '_', '%i-%')}' AS x FROM orders WHERE s IS NOT NULL",
        )

    def grouping(self) -> str:
        by = self._pick(
            "ROLLUP (k, b, s)",
            "CUBE (k, s)",
            "GROUPING SETS ((k), (b), (k, b))",
            "k, ROLLUP (b)",
            "GROUPING SETS ((k, b), ())",
        )
        names = "k, b" if "b" in by else "k, s"
        first, second = names.split(", ")
        return (
            f"SELECT {names}, GROUPING({first}) AS g, GROUPING_ID({first}, {second}) AS h, {self.orders.aggregate()} AS a "
            f"FROM orders GROUP BY {by}{self._pick('', ' HAVING COUNT(*) > 3')}"
        )

    def collected(self) -> str:
        shown = self._pick(
            "ARRAY_SORT(ARRAY_AGG(k))",
            "ARRAY_SORT(ARRAY_AGG(DISTINCT k))",
            "COLLECT(b)",
            "COLLECT(DISTINCT s)",
            "FIRST_VALUE(id)",
            "LAST_VALUE(s)",
            "CHAR_LENGTH(LISTAGG(DISTINCT s))",
            "CHAR_LENGTH(LISTAGG(s, '/'))",
            "CARDINALITY(ARRAY_AGG(id))",
            "PERCENTILE(id, 0.25)",
            "VAR_POP(d)",
            "STDDEV_SAMP(k)",
            "JSON_OBJECTAGG(KEY CAST(id AS STRING) VALUE k)",
        )
        return f"SELECT MOD(id, 4) AS key, {shown} AS a, COUNT(*) AS n FROM orders WHERE {self.orders.truth(1)} GROUP BY MOD(id, 4)"

    def neighbours(self) -> str:
        by = self._pick("", "PARTITION BY k ", "PARTITION BY k, b ")
        numbers = (
            "ROW_NUMBER()",
            "RANK()",
            "DENSE_RANK()",
        )  # not beside others, whose rows are others
        values = (
            "LAG(id)",
            f"LAG(id, {self._rng.randrange(1, 4)})",
            "FIRST_VALUE(id)",
            "LAST_VALUE(s)",
            "SUM(d)",
            "COUNT(k)",
            "MAX(ts)",
        )
        first, second = self._rng.sample(self._rng.choice([numbers, values]), 2)
        return f"SELECT id, {first} OVER w AS x, {second} OVER w AS y FROM orders WINDOW w AS ({by}ORDER BY ts)"

    def lateral(self) -> str:
        return self._pick(
            f"SELECT n.k, t.n FROM names AS n LEFT JOIN LATERAL (SELECT COUNT(*) AS n FROM items AS i WHERE i.k = n.k AND i.v > {self._rng.randrange(30)}) AS t ON TRUE",
            f"SELECT id, word FROM orders, LATERAL TABLE(letters(s)) AS t (word) WHERE id > {self._rng.randrange(40)}",
            f"SELECT id, word FROM orders LEFT JOIN LATERAL TABLE(letters(s)) AS t (word) ON TRUE WHERE id < {self._rng.randrange(5, 50)}",
            f"SELECT iid, twice(v) AS x, twice(CHAR_LENGTH(w)) AS y FROM items WHERE twice(v) > {self._rng.randrange(20)}",
        )

    def unnest(self) -> str:
        kind = self._pick("CROSS JOIN", "LEFT JOIN")
        on = " ON TRUE" if kind == "LEFT JOIN" else ""
        return self._pick(
            f"SELECT n, e FROM things {kind} UNNEST(ai) AS u (e){on}",
            f"SELECT n, a, z FROM things {kind} UNNEST(ms) AS u (a, z){on}",
            f"SELECT n, e, place FROM things {kind} UNNEST(ai) WITH ORDINALITY AS u (e, place){on}",
            f"SELECT n, x, y FROM things {kind} UNNEST(ARRAY[r, r]) AS u (x, y){on}",
            f"SELECT e, COUNT(*) AS c FROM things {kind} UNNEST(ai) AS u (e){on} GROUP BY e",
        )

    def nested_types(self) -> str:
        choices = (
            "ai[1]",
            "ms['a']",
            "r.x + 1",
            "r.y",
            "CARDINALITY(ai)",
            "ARRAY_CONTAINS(ai, 3)",
            "MAP_KEYS(ms)",
            "ROW(n, s)",
            "ARRAY[i, n]",
            "MAP[s, n]",
            "(n, i) = (3, 4)",
            "ARRAY_APPEND(ai, n)",
            "ARRAY_DISTINCT(ai)",
            "ARRAY_SORT(ai)",
            "ELEMENT(ARRAY[n])",
            "MAP_VALUES(ms)",
            "ai = ARRAY[1, 2]",
            "r IS NULL",
            "COALESCE(ai, ARRAY[9])",
            "CAST(ROW(n, s) AS ROW<a BIGINT, b STRING>).a",
            "JSON_OBJECT('n' VALUE n, 'm' VALUE m)",
            "JSON_ARRAY(s, bi, f)",
            "ARRAY_JOIN(MAP_KEYS(ms), '+')",
            "ARRAY_SLICE(ai, 1, 2)",
            "CASE WHEN n > 20 THEN r ELSE ROW(1, 'x') END",
        )
        # As text: PyFlink cannot give empty lists and maps to its programs.
        some = enumerate(self._rng.sample(choices, 4))
        shown = ", ".join(f"CAST({each} AS STRING) AS c{n}" for n, each in some)
        return f"SELECT n, {shown} FROM things"

    def cast(self) -> str:
        pairs = [(name, self._pick(*CASTS[name])) for name in self._rng.sample(sorted(CASTS), 4)]
        shown = ", ".join(f"{_shown(name, kind)} AS c{n}" for n, (name, kind) in enumerate(pairs))
        return f"SELECT n, {shown} FROM things"

    def functions_of_columns(self) -> str:
        choices = (
            "i + bi",
            "i * i",
            "si * ti",
            "bi * 4000000000",
            "ti + ti",
            "-i",
            "CAST(f + d AS STRING)",
            "f * 2",
            "m * m",
            "m / 3",
            "m + i",
            "m * d",
            "MOD(bi, 7)",
            "i / NULLIF(ti, 0)",
            "d / 0",
            "c || s",
            "CHAR_LENGTH(c)",
            "c = 'xyz'",
            "UPPER(s)",
            "dy + INTERVAL '1' MONTH",
            "ltz - INTERVAL '90' MINUTE",
            "TIMESTAMPDIFF(DAY, ts9, TIMESTAMP '2024-01-01 00:00:00')",
            "EXTRACT(WEEK FROM dy)",
            "EXTRACT(EPOCH FROM ltz)",
            "DATE_FORMAT(ltz, 'yyyy/MM/dd HH:mm')",
            "FLOOR(ts9 TO DAY)",
            "t > TIME '12:00:00'",
            "ts9 > ltz",
            "dy = CAST(ts9 AS DATE)",
            "ENCODE(s, 'UTF-8')",
            "DECODE(by, 'UTF-8')",
            "SHA256(s)",
            "HEX(i)",
            "BIN(ti)",
            "ROUND(m, -1)",
            "TRUNCATE(d, 2)",
            "FLOOR(m)",
            "SIGN(m)",
            "ABS(i)",
            "POWER(ti, 2)",
            "CAST(m AS STRING) || '!'",
            "GREATEST(i, bi, ti)",
            "COALESCE(ti, si, i)",
            "CASE WHEN ti > 0 THEN m ELSE i END",
            "IF(si > 0, d, f)",
            "NULLIF(i, bi)",
            "UNIX_TIMESTAMP(CAST(ts9 AS STRING))",
            "FROM_UNIXTIME(ABS(i))",
            "TO_TIMESTAMP_LTZ(si, 0)",
            "TIMESTAMPADD(SECOND, si, ts9)",
            "TYPEOF(m * m)",
            "s LIKE '%e%'",
            "REGEXP_REPLACE(s, '(p+)', '<$1>')",
            "SPLIT_INDEX(s, ' ', 1)",
            "ASCII(s)",
            "INSTR(s, 'p')",
            "LOCATE('e', s, 2)",
            "PARSE_URL('http://a.b/c?q=1', 'QUERY')",
            "i IS NOT DISTINCT FROM bi",
            "ti BETWEEN SYMMETRIC si AND i",
            "s SIMILAR TO '%(i|e)%'",
            "TO_DATE(s)",
            "QUARTER(dy)",
            "DAYOFWEEK(dy)",
            "CAST(dy AS TIMESTAMP(3)) - ts9 > INTERVAL '1' DAY",
        )
        shown = ", ".join(f"{each} AS c{n}" for n, each in enumerate(self._rng.sample(choices, 5)))
        return f"SELECT n, {shown} FROM things"

    def match(self) -> str:
        skip = self._pick(
            "SKIP PAST LAST ROW", "SKIP TO NEXT ROW", "SKIP TO LAST up", "SKIP TO FIRST up"
        )
        pattern = self._pick(
            "first up+ last",
            "first up+? last",
            "first up{2,3} last",
            "first up* last",
            "first (up last)+",
            "first other*? up last",
        )
        within = self._pick("", "", f" WITHIN {self._seconds(5, 20)}")
        skip = "SKIP PAST LAST ROW" if "up*" in pattern else skip
        return (
            "SELECT * FROM items MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts MEASURES first.iid AS a, LAST(up.v) AS u, last.iid AS z, "
            f"SUM(up.v) AS total, AVG(up.v) AS mean, MATCH_ROWTIME() AS moment ONE ROW PER MATCH AFTER MATCH {skip} PATTERN ({pattern}){within} "
            f"DEFINE first AS first.v < {self._rng.randrange(10, 35)}, up AS up.v > {self._pick('first.v', '3', 'first.v - 10')}, "
            f"last AS last.v < {self._pick('30', 'LAST(up.v, 1)', 'first.v + 15')})"
        )


def _shown(name: str, kind: str) -> str:
    cast = f"TRY_CAST({name} AS {kind})"
    return f"CAST({cast} AS STRING)" if "<" in kind else cast


def more_queries(rounds: int) -> list[tuple[str, str]]:
    """So many different queries of each kind at most, with the names of their kinds."""
    made: dict[str, str] = {}
    for number in range(rounds):
        for kind, query in MoreQueries(number).make():
            made.setdefault(query, kind)
    return [(kind, query) for query, kind in made.items()]
