"""Random queries in event time, for Hypothesis to draw, each in two dialects: ours, and SQLite's over the tables of a Timeline.

As in `nested_queries`, every query has the whole numbers a, b and c as its columns. The modes of a query say how its rows may come so that its result is
known: `chaos`, in any order and without late rows; `drained`, without late rows, and each watermark comes everywhere before the next row; `late`, as before but
with rows behind the watermark.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from hypothesis import strategies as st

from tests.builders.timelines import BASE_MS, GAPS, NEVER, TABLES, WINDOWS
from tests.sql.nested_queries import nested_queries

CHAOS, DRAINED, LATE = "chaos", "drained", "late"
ALL = frozenset({CHAOS, DRAINED, LATE})
IN_TIME = frozenset({CHAOS, DRAINED})
_CLOCK = "(SELECT wm FROM clock)"
_NOW_AND_THEN = "TIMESTAMP '2024-01-01 00:00:00'"


@dataclass(frozen=True)
class Timed:
    """A query as we read it, as SQLite does, and the modes that it is meant for. `settled`: what it has given is known at any watermark, not only at the end."""

    ours: str
    theirs: str
    modes: frozenset[str] = ALL
    settled: bool = True

    @property
    def tables(self) -> list[str]:
        """The tables that it reads."""
        return [name for name in TABLES if re.search(rf"\b{name}\b", self.theirs)] + (
            ["rates"] if "FROM versions" in self.theirs else []
        )


@dataclass(frozen=True)
class Windowed:
    """Rows of a table with their windows; `alias` is not part of it."""

    ours: str
    theirs: str
    modes: frozenset[str] = ALL


def _both(template: str, *inputs: Windowed, modes: frozenset[str] = ALL) -> Timed:
    """Return a query that is the same in both dialects, but for what it reads: {0}, {1}; {start} and {end} are the bounds of windows in seconds.

    Behind a, b and c may stand the bounds themselves: with them, the result of a window has a key.
    """
    texts = []
    for names, start, end in (
        ([each.ours for each in inputs], _seconds("{}window_start"), _seconds("{}window_end")),
        ([each.theirs for each in inputs], _number("{}window_start"), _number("{}window_end")),
    ):
        bounds = {"start": start.format(""), "end": end.format(""), "lend": end.format("l.")}
        texts.append(template.format(*names, **bounds))
    for each in inputs:
        modes &= each.modes
    return Timed(texts[0], texts[1], modes)


def _seconds(name: str) -> str:
    return f"CAST(TIMESTAMPDIFF(SECOND, {_NOW_AND_THEN}, {name}) AS INT)"


def _number(name: str) -> str:
    return f"(({name} - {BASE_MS}) / 1000)"


# Windows


def _window_texts(table: str, name: str) -> Windowed:
    kind, size, step, offset = WINDOWS[name]
    bounds = [f"INTERVAL '{size}' SECOND"]
    if kind != "TUMBLE":
        bounds.insert(0, f"INTERVAL '{step}' SECOND")
    if offset:
        bounds.append(f"INTERVAL '{offset}' SECOND")
    theirs = (
        f"(SELECT t.*, w.s AS window_start, w.e AS window_end FROM {table} t JOIN windows w ON w.name = '{name}' "
        "AND t.ts >= w.s AND t.ts < w.e AND w.e - 1 > t.wm AND NOT (w.e - 1 > t.gone_wm) "
        f"AND w.e - 1 <= {_CLOCK})"
    )
    ours = f"TABLE({kind}(TABLE {table}, DESCRIPTOR(ts), {', '.join(bounds)}))"
    changes = table == "stock"
    return Windowed(ours, theirs, frozenset({DRAINED, LATE}) if changes else ALL)


def _session_texts(table: str, gap: int, keyed: bool) -> Windowed:
    partition = " PARTITION BY k" if keyed else ""
    name = f"{table}_{gap}_{'k' if keyed else 'all'}"
    return Windowed(
        f"TABLE(SESSION(TABLE {table}{partition}, DESCRIPTOR(ts), INTERVAL '{gap}' SECOND))",
        f"(SELECT t.*, w.s AS window_start, w.e AS window_end FROM {table} t JOIN sessions w ON w.name = '{name}' "
        f"AND w.n = t.n AND w.e - 1 <= {_CLOCK})",
    )


_names = st.sampled_from(sorted(WINDOWS))
_growing = st.sampled_from(["bids", "bids", "asks"])
_sliced = st.builds(_window_texts, st.sampled_from(["bids", "bids", "asks", "stock"]), _names)
_grows = st.builds(_window_texts, _growing, _names)
_sessions = st.builds(
    _session_texts, st.sampled_from(["bids", "asks"]), st.sampled_from(GAPS), st.booleans()
)
_CALLS = (
    "SUM(v)", "MAX(v)", "MIN(v)", "CAST(COUNT(v) AS INT)", "CAST(COUNT(DISTINCT v) AS INT)", "SUM(DISTINCT v)",
    "SUM(v) FILTER (WHERE id > 6)", "CAST(COUNT(*) FILTER (WHERE v > 4) AS INT)", "CAST(COUNT(DISTINCT v) FILTER (WHERE id < 15) AS INT)",
    "MAX(v) FILTER (WHERE id > 4)",
)  # fmt: skip
_calls = st.sampled_from(_CALLS)
_BETWEEN = ("", "", " WHERE v > 2", " WHERE k > 1", " WHERE id + v > 9")
_between = st.sampled_from(_BETWEEN)


def _aggregate(window: Windowed, call: str, where: str, shown: str) -> Timed:
    return _both(
        f"SELECT {shown}, CAST(COUNT(*) AS INT) AS b, {call} AS c, window_start, window_end FROM {{0}}{where} GROUP BY window_start, window_end, k",
        window,
    )


def _total(window: Windowed, call: str, where: str, shown: str) -> Timed:
    return _both(
        f"SELECT {shown} AS a, CAST(COUNT(*) AS INT) AS b, {call} AS c, window_end FROM {{0}}{where} GROUP BY window_start, window_end",
        window,
    )


def _two_levels(window: Windowed, call: str, where: str, outer: str) -> Timed:
    return _both(
        f"SELECT {{end}} AS a, {outer} AS b, CAST(COUNT(*) AS INT) AS c FROM (SELECT window_start, window_end, k, {call} AS c FROM {{0}}{where} "
        "GROUP BY window_start, window_end, k) GROUP BY window_start, window_end",
        window,
    )


def _over_windows(window: Windowed, call: str) -> Timed:
    """Group windows of two kinds again, by something else than time: a table that changes."""
    return _both(
        f"SELECT k AS a, CAST(SUM(n) AS INT) AS b, MAX(c) AS c FROM (SELECT window_end, k, COUNT(*) AS n, {call} AS c FROM {{0}} "
        "GROUP BY window_start, window_end, k) GROUP BY k",
        window,
    )


def _sets(window: Windowed, call: str) -> Timed:
    one = f"SELECT {{end}} AS a, {{key}} AS b, {call} AS c FROM {{0}} GROUP BY window_start, window_end"
    start, end = _number("window_start"), _number("window_end")
    theirs = " UNION ALL ".join(
        each.format(window.theirs, start=start, end=end)
        for each in (one.replace("{key}", "k") + ", k", one.replace("{key}", "NULL"))
    )
    ours = one.replace("{key}", "k") + ", GROUPING SETS ((k), ())"
    return Timed(ours.format(window.ours, end=_seconds("window_end")), theirs, window.modes)


def _first(window: Windowed, by: str, order: str, shown: str, condition: str) -> Timed:
    return _both(
        f"SELECT {shown}, window_start, window_end FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY {by} ORDER BY {order}) AS rn FROM {{0}}) WHERE rn {condition}",
        window,
    )


def _first_of_groups(window: Windowed, call: str, order: str, condition: str) -> Timed:
    return _both(
        f"SELECT {{end}} AS a, k AS b, c, window_end FROM (SELECT window_start, window_end, k, c, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY {order}) AS rn FROM "
        f"(SELECT window_start, window_end, k, {call} AS c FROM {{0}} GROUP BY window_start, window_end, k)) WHERE rn {condition}",
        window,
    )


_SAME = "l.window_start = r.window_start AND l.window_end = r.window_end"


def _joined(pair: tuple[Windowed, Windowed], kind: str, more: str) -> Timed:
    return _both(
        f"SELECT l.id AS a, r.id AS b, {{lend}} AS c FROM (SELECT * FROM {{0}}) l {kind} JOIN (SELECT * FROM {{1}}) r ON l.k = r.k AND {_SAME}{more}",
        *pair,
    )


def _joined_groups(pair: tuple[Windowed, Windowed], kind: str, call: str) -> Timed:
    grouped = "(SELECT window_start, window_end, k, {} AS c FROM {{{}}} GROUP BY window_start, window_end, k)"
    return _both(
        f"SELECT l.k AS a, l.c AS b, r.c AS c FROM {grouped.format(call, 0)} l {kind} JOIN {grouped.format('CAST(COUNT(*) AS INT)', 1)} r "
        f"ON l.k = r.k AND {_SAME}",
        *pair,
    )


def _grouped_pairs(pair: tuple[Windowed, Windowed], kind: str) -> Timed:
    """Windows of joined rows: those of the side that is preserved. The sides have different columns."""
    side = "r" if kind == "RIGHT" else "l"
    return _both(
        f"SELECT {{end}} AS a, CAST(COUNT(*) AS INT) AS b, MAX(id) AS c, window_end FROM (SELECT {side}.window_start, {side}.window_end, l.id FROM "
        f"(SELECT * FROM {{0}}) l {kind} JOIN (SELECT window_start, window_end, k, COUNT(*) AS n FROM {{1}} GROUP BY window_start, window_end, k) r "
        f"ON l.k = r.k AND {_SAME}) GROUP BY window_start, window_end",
        *pair,
    )


def _plain(table: str, name: str) -> Timed:
    """Rows with their windows leave at once, whatever the watermark."""
    windowed = _window_texts(table, name)
    query = "SELECT id AS a, k AS b, v AS c, window_start, window_end FROM {}"
    theirs = (
        f"(SELECT t.*, w.s AS window_start, w.e AS window_end FROM {table} t JOIN windows w ON w.name = '{name}' "
        f"AND t.ts >= w.s AND t.ts < w.e WHERE t.gone_wm = {NEVER})"
    )
    return Timed(query.format(windowed.ours), query.format(theirs))


def _chosen(pair: tuple[Windowed, Windowed], negated: str, more: str) -> Timed:
    return _both(
        f"SELECT id AS a, k AS b, {{end}} AS c FROM (SELECT * FROM {{0}}) l WHERE {negated}EXISTS (SELECT 1 FROM (SELECT * FROM {{1}}) r "
        f"WHERE r.k = l.k AND {_SAME}{more})",
        *pair,
    )


def _pairs() -> st.SearchStrategy[tuple[Windowed, Windowed]]:
    return st.builds(
        lambda name, left, right: (_window_texts(left, name), _window_texts(right, name)),
        _names,
        _growing,
        _growing,
    )


_kinds = st.sampled_from(["INNER", "LEFT", "RIGHT", "FULL"])
_bounds = st.sampled_from(["<= 1", "<= 2", "= 2", "BETWEEN 2 AND 3"])


def _aggregates(windowed: st.SearchStrategy[Windowed]) -> st.SearchStrategy[Timed]:
    shown = st.sampled_from(["k AS a", "{end} AS a", "{start} AS a"])
    outer = st.sampled_from(["MAX(c)", "SUM(c)", "MIN(k)"])
    return st.one_of(
        st.builds(_aggregate, windowed, _calls, _between, shown),
        st.builds(_aggregate, windowed, _calls, _between, shown),
        st.builds(_total, windowed, _calls, _between, st.sampled_from(["{start}", "{end}"])),
        st.builds(_two_levels, windowed, _calls, _between, outer),
        st.builds(_over_windows, windowed, _calls),
    )


def _firsts(windowed: st.SearchStrategy[Windowed]) -> st.SearchStrategy[Timed]:
    return st.builds(
        _first,
        windowed,
        st.sampled_from(["window_start, window_end", "window_start, window_end, k"]),
        st.sampled_from(["v DESC, id", "v, id DESC", "ts, id", "ts DESC, id"]),
        st.sampled_from(
            [
                "{end} AS a, id AS b, v AS c",
                "id AS a, CAST(rn AS INT) AS b, v AS c",
                "k AS a, {start} AS b, id AS c",
            ]
        ),
        _bounds,
    )


_windows = st.one_of(_aggregates(_sliced), _aggregates(_sliced), st.builds(_sets, _sliced, _calls))
_session_windows = st.one_of(_aggregates(_sessions), _aggregates(_sessions), _firsts(_sessions))
_window_firsts = st.one_of(
    _firsts(_grows),
    _firsts(_grows),
    st.builds(
        _first_of_groups,
        _sliced,
        _calls,
        st.sampled_from(["c DESC, k", "k", "c, k DESC"]),
        _bounds,
    ),
    st.builds(_plain, st.sampled_from(["bids", "stock"]), _names),
)
_window_joins = st.one_of(
    st.builds(
        _joined,
        _pairs(),
        _kinds,
        st.sampled_from(["", " AND l.v > r.v", " AND l.v > 2", " AND r.id > 8"]),
    ),
    st.builds(_joined_groups, _pairs(), _kinds, _calls),
    st.builds(_grouped_pairs, _pairs(), st.sampled_from(["INNER", "LEFT", "RIGHT", "RIGHT"])),
    st.builds(
        _chosen, _pairs(), st.sampled_from(["", "NOT "]), st.sampled_from(["", " AND r.v > l.v"])
    ),
)


# Windows in GROUP BY


def _group_window(table: str, name: str, call: str) -> Timed:
    kind, size, step, offset = WINDOWS[name]
    bounds = f"ts, INTERVAL '{size}' SECOND"
    if kind == "HOP":
        bounds = f"ts, INTERVAL '{step}' SECOND, INTERVAL '{size}' SECOND"
    if offset:
        bounds += f", TIME '00:00:0{offset}'"
    end = _seconds(f"{kind}_END({bounds})")
    window = _window_texts(table, name)
    return Timed(
        f"SELECT k AS a, {end} AS b, {call} AS c FROM {table} GROUP BY k, {kind}({bounds})",
        f"SELECT k AS a, {_number('window_end')} AS b, {call} AS c FROM {window.theirs} GROUP BY window_start, window_end, k",
        window.modes,
    )


def _group_session(table: str, gap: int, call: str) -> Timed:
    bounds = f"ts, INTERVAL '{gap}' SECOND"
    start = _seconds(f"SESSION_START({bounds})")
    return Timed(
        f"SELECT k AS a, {start} AS b, {call} AS c FROM {table} GROUP BY k, SESSION({bounds})",
        f"SELECT k AS a, {_number('window_start')} AS b, {call} AS c FROM {_session_texts(table, gap, True).theirs} GROUP BY window_start, window_end, k",
    )


# No CUMULATE, which is a table function only; and no offset, which a window in GROUP BY has in another place.
_PLAIN = [
    name for name, (kind, _, _, offset) in WINDOWS.items() if kind != "CUMULATE" and not offset
]
_group_windows = st.one_of(
    st.builds(_group_window, st.sampled_from(["bids", "stock"]), st.sampled_from(_PLAIN), _calls),
    st.builds(_group_session, st.just("bids"), st.sampled_from(GAPS), _calls),
)


# Rows in the order of time


# Rows wait for their time only where the result of OVER is needed.
_NEEDED = "WHERE COALESCE(b, 0) > -1"


def _over(call: str, partition: str, bound: tuple[str, int | None]) -> Timed:
    """Frames that begin with the first row go by the watermark; others by the last row of their key."""
    unit, preceding = bound
    if preceding is None:
        ours = theirs = "UNBOUNDED"
        modes, late = ALL, "ts <= wm"
    elif unit == "ROWS":
        ours = theirs = str(preceding)
        modes, late = ALL if partition else IN_TIME, "late_row"
    else:
        ours, theirs = f"INTERVAL '{preceding}' SECOND", str(preceding * 1000)
        modes, late = IN_TIME, "0"
    order = "ts, n" if unit == "ROWS" else "ts"
    frame = f"{unit} BETWEEN {{}} PRECEDING AND CURRENT ROW"
    by = f"PARTITION BY {partition} " if partition else ""
    return Timed(
        f"SELECT a, b, c FROM (SELECT id AS a, CAST({call} OVER ({by}ORDER BY ts {frame.format(ours)}) AS INT) AS b, v AS c FROM bids) {_NEEDED}",
        f"SELECT a, b, c FROM (SELECT id AS a, CAST({call} OVER ({by}ORDER BY {order} {frame.format(theirs)}) AS INT) AS b, v AS c, ts FROM bids "
        f"WHERE NOT ({late})) WHERE ts <= {_CLOCK}",
        # Of rows with the same time, those of a key come in their order.
        modes if partition or unit == "RANGE" else modes - {CHAOS},
    )


def _lagged(call: str) -> Timed:
    theirs = call.format("PARTITION BY k ORDER BY ts, n")
    return Timed(
        f"SELECT a, b, c FROM (SELECT id AS a, CAST({call.format('PARTITION BY k ORDER BY ts')} AS INT) AS b, v AS c FROM bids) {_NEEDED}",
        f"SELECT a, b, c FROM (SELECT id AS a, {theirs} AS b, v AS c, ts FROM bids WHERE NOT (ts <= wm)) WHERE ts <= {_CLOCK}",
    )


def _over_changes(call: str, partition: str) -> Timed:
    """Of rows that change, time is a column like any other: nothing waits, and nothing is late."""
    query = (
        f"SELECT id AS a, CAST({call} OVER ({partition}ORDER BY ts) AS INT) AS b, v AS c FROM stock"
    )
    return Timed(query, f"{query} WHERE gone_wm = {NEVER}")


_OVER = (
    "SUM(v)",
    "COUNT(*)",
    "COUNT(v)",
    "MAX(v)",
    "MIN(v)",
    "FIRST_VALUE(COALESCE(v, 0))",
    "LAST_VALUE(COALESCE(v, 0))",
)
_ordered = st.one_of(
    st.builds(
        _over,
        st.sampled_from(_OVER),
        st.sampled_from(["k", "k", ""]),
        st.sampled_from(
            [("ROWS", None), ("RANGE", None), ("ROWS", 1), ("ROWS", 3), ("RANGE", 1), ("RANGE", 4)]
        ),
    ),
    st.builds(_lagged, st.sampled_from(["LAG(v) OVER ({})", "LAG(v, 2) OVER ({})"])),
    st.builds(
        _over_changes,
        st.sampled_from(["SUM(v)", "COUNT(*)", "MAX(v)"]),
        st.sampled_from(["PARTITION BY k ", ""]),
    ),
)


def _deduplicated(table: str, order: str, shown: str) -> Timed:
    theirs = {
        "ts": "ts, n", "ts DESC": "ts DESC, n DESC", "pt": "n", "pt DESC": "n DESC",
    }[order]  # fmt: skip
    query = "SELECT {2} FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY {1}) AS rn FROM {0}) WHERE rn = 1"
    return Timed(query.format(table, order, shown), query.format(table, theirs, shown))


_deduplicates = st.builds(
    _deduplicated,
    _growing,
    st.sampled_from(["ts", "ts DESC", "pt", "pt DESC"]),
    st.sampled_from(["k AS a, id AS b, v AS c", "id AS a, v AS b, CAST(rn AS INT) AS c"]),
)


# Joins in time


def _near(kind: str, before: int, after: int, more: str, strict: tuple[str, str]) -> Timed:
    ours, theirs = "INTERVAL '{}' SECOND", "{} * 1000"
    head = "SELECT l.id AS a, r.id AS b, l.v AS c FROM bids l {} JOIN asks r"
    if kind in {"SEMI", "ANTI"}:
        word = "NOT EXISTS" if kind == "ANTI" else "EXISTS"
        head = f"SELECT id AS a, k AS b, v AS c FROM bids l WHERE {word} (SELECT 1 FROM asks r"
    texts = []
    for interval in (ours, theirs):
        low, high = interval.format(before), interval.format(after)
        condition = f"l.k = r.k AND l.ts >{strict[0]} r.ts - {low} AND l.ts <{strict[1]} r.ts + {high}{more}"
        if kind in {"SEMI", "ANTI"}:
            texts.append(f"{head} WHERE {condition})")
        else:
            texts.append(f"{head.format(kind)} ON {condition}")
    return Timed(*texts, IN_TIME, settled=kind in {"INNER", "SEMI"})


_intervals = st.builds(
    _near,
    st.sampled_from(["INNER", "LEFT", "RIGHT", "FULL", "SEMI", "ANTI"]),
    st.integers(0, 3),
    st.integers(0, 3),
    st.sampled_from(["", "", " AND l.v > r.v"]),
    st.tuples(st.sampled_from(["=", ""]), st.sampled_from(["=", ""])),
)


def _temporal(kind: str, table: str, more: str) -> Timed:
    ours = {
        "rates": "rates",
        "asks": "latest",
    }[table]
    versions = {
        "rates": "SELECT k, rate, ts, n, gone, wm FROM versions",
        "asks": "SELECT k, v AS rate, ts, n, 0 AS gone, wm FROM asks WHERE version",
    }[table]
    return Timed(
        f"SELECT l.id AS a, r.rate AS b, r.k AS c FROM bids l {kind} JOIN {ours} FOR SYSTEM_TIME AS OF l.ts AS r ON l.k = r.k{more}",
        f"SELECT l.id AS a, r.rate AS b, r.k AS c FROM bids l {kind} JOIN ({versions}) r ON r.n = (SELECT x.n FROM ({versions}) x "
        f"WHERE x.k = l.k AND x.ts <= l.ts AND x.wm < l.ts ORDER BY x.ts DESC, x.n DESC LIMIT 1) AND NOT r.gone{more} WHERE l.ts <= {_CLOCK}",
        IN_TIME if table == "asks" else frozenset({DRAINED}),
    )


_temporals = st.builds(
    _temporal,
    st.sampled_from(["INNER", "LEFT"]),
    st.sampled_from(["rates", "rates", "asks"]),
    st.sampled_from(["", "", " AND l.v > r.rate"]),
)


def sums_of_windows(table: str, name: str) -> Timed:
    """The sums of a table's windows."""
    return _aggregate(_window_texts(table, name), "SUM(v)", "", "{end} AS a")


def sums_of_sessions(table: str, gap: int) -> Timed:
    """The sums of a table's sessions by key."""
    return _aggregate(_session_texts(table, gap, keyed=True), "SUM(v)", "", "{end} AS a")


def versions_of(table: str) -> Timed:
    """Rows of `bids` with the versions of a table."""
    return _temporal("LEFT", table, "")


_GROWING = tuple(
    f"SELECT {columns} FROM {table}"
    for table in ("bids", "asks")
    for columns in ("id AS a, k AS b, v AS c", "k AS a, v AS b, id AS c")
)
# Tables that only grow, without a look at time: joins and Top-N have ways of their own for them.
_growing_tables = nested_queries(1, _GROWING).map(lambda query: Timed(query, query))


FAMILIES: dict[str, st.SearchStrategy[Timed]] = {
    "growing tables": _growing_tables,
    "windows": _windows,
    "sessions": _session_windows,
    "window Top-N": _window_firsts,
    "window joins": _window_joins,
    "windows in GROUP BY": _group_windows,
    "OVER": _ordered,
    "deduplication": _deduplicates,
    "interval joins": _intervals,
    "temporal joins": _temporals,
}


def timed_queries(mode: str, family: str | None = None) -> st.SearchStrategy[Timed]:
    """Queries of a family, or of any, whose results are known if rows come as the mode says."""
    chosen = st.one_of(*FAMILIES.values()) if family is None else FAMILIES[family]
    return chosen.filter(lambda each: mode in each.modes)
