"""What the state of a query's operators is made for: what changes of a query are noticed, and which do not matter."""

from __future__ import annotations

import importlib
import json
import pkgutil
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import penstock.graph.operator_specs.columnar
from penstock.graph.operator_specs import OperatorSpec, spec_kinds
from penstock.graph.state_description import StateDescription, changed_parts
from penstock.graph.transformations import OperatorTransformation, Transformation
from penstock.sql.physical.nodes import PhysicalOperator
from penstock.sql.physical.translate import translate
from tests.builders.cases import check_all
from tests.unit.sql.logical.plans import Catalog
from tests.unit.sql.logical.plans import plan as logical_plan
from tests.unit.sql.physical.plans import Toys, planner

TOY = "'connector' = 'toy', 'unbounded' = 'true', 'can' = 'apply_projection apply_filters'"
TABLES = (
    (
        f"CREATE TABLE bids (auction BIGINT, bidder BIGINT, price BIGINT, tip BIGINT, small INT, channel VARCHAR(10), "
        f"at TIMESTAMP(3), seen TIMESTAMP_LTZ(3), pt AS PROCTIME(), WATERMARK FOR at AS at) WITH ({TOY})"
    ),
    f"CREATE TABLE moments (id BIGINT, price BIGINT, ltz TIMESTAMP_LTZ(3), WATERMARK FOR ltz AS ltz) WITH ({TOY})",
    f"CREATE TABLE asks (auction BIGINT, seller BIGINT, price BIGINT, at TIMESTAMP(3), WATERMARK FOR at AS at) WITH ({TOY})",
    (
        f"CREATE TABLE rates (id BIGINT, rate DOUBLE, tax DOUBLE, at TIMESTAMP(3), WATERMARK FOR at AS at, PRIMARY KEY (id) NOT ENFORCED) "
        f"WITH ({TOY}, 'mode' = 'upsert')"
    ),
    f"CREATE TABLE users (id BIGINT NOT NULL, name STRING, city STRING, PRIMARY KEY (id) NOT ENFORCED) WITH ({TOY}, 'mode' = 'upsert')",
    f"CREATE TABLE changing (id BIGINT NOT NULL, person BIGINT, price BIGINT, PRIMARY KEY (id) NOT ENFORCED) WITH ({TOY}, 'mode' = 'all')",
    "CREATE TABLE looked (id BIGINT, name STRING) WITH ('connector' = 'toy', 'unbounded' = 'true', 'can' = 'apply_projection lookup_provider')",
    "CREATE TABLE sink (person BIGINT, total BIGINT, PRIMARY KEY (person) NOT ENFORCED) WITH ('connector' = 'toy', 'mode' = 'upsert')",
)


def _reached(ends: list[Transformation]) -> Iterator[Transformation]:
    seen: set[int] = set()
    waiting = list(ends)
    while waiting:
        step = waiting.pop()
        if step.id not in seen:
            seen.add(step.id)
            yield step
            waiting.extend(step.inputs)


def keeps_state(spec: OperatorSpec | type[OperatorSpec]) -> bool:
    return bool(spec.state_tables or spec.operator_states)


def described(
    query: str,
    *,
    tables: tuple[str, ...] = TABLES,
    batch: bool = False,
    zone: str = "UTC",
    **options: str,
) -> list[tuple[type[OperatorSpec], StateDescription | None]]:
    """The operators of a query that keep state, in no order, with what they say about it."""
    made = planner(Toys(), batch=batch, **options)
    made.settings = replace(made.settings, zone=zone)
    plan = made.plan([logical_plan(query, Catalog(*tables), zone)])
    return [
        (type(step.spec), step.state_description)
        for step in _reached(translate(plan))
        if isinstance(step, OperatorTransformation)
        and step.kind == "operator"
        and keeps_state(step.spec)
    ]


def state_of(query: str, operator: str, **how: object) -> StateDescription:
    """The description of a query's only operator of a kind."""
    (found,) = (
        each
        for _, each in described(query, **how)  # type: ignore[arg-type]
        if each is not None and each.operator == operator
    )
    # As it comes back from a checkpoint.
    return StateDescription.from_json(json.loads(json.dumps(found.to_json())))


def windows(
    function: str, select: str = "auction, SUM(price) AS total", keys: str = "auction, "
) -> str:
    return f"SELECT {select} FROM TABLE({function}) GROUP BY {keys}window_start, window_end"


TUMBLE = "TUMBLE(TABLE bids, DESCRIPTOR(at), INTERVAL '20' SECOND)"
TOP = "SELECT auction, price FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY auction ORDER BY price) AS place FROM bids) WHERE place <= 3"
FIRST = "SELECT auction, price FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY auction ORDER BY pt) AS place FROM bids) WHERE place = 1"
WINDOW_TOP = (
    "SELECT * FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY price) AS place "
    f"FROM TABLE({TUMBLE})) WHERE place <= 3"
)
OVER = "SELECT auction, SUM(price) OVER (PARTITION BY auction ORDER BY at ROWS BETWEEN 5 PRECEDING AND CURRENT ROW) AS s FROM bids"
JOIN = "SELECT b.price, a.seller FROM bids b LEFT JOIN asks a ON b.auction = a.auction AND b.price > a.price"
INNER = "SELECT b.price, a.seller FROM bids b JOIN asks a ON b.auction = a.auction AND b.price > a.price"
INTERVAL = "SELECT b.price FROM bids b JOIN asks a ON b.auction = a.auction AND a.at BETWEEN b.at AND b.at + INTERVAL '4' HOUR"
WINDOW_JOIN = (
    f"SELECT l.price FROM (SELECT * FROM TABLE({TUMBLE})) l JOIN "
    "(SELECT * FROM TABLE(TUMBLE(TABLE asks, DESCRIPTOR(at), INTERVAL '20' SECOND))) r "
    "ON l.auction = r.auction AND l.window_start = r.window_start AND l.window_end = r.window_end"
)
TEMPORAL = "SELECT b.price, r.rate FROM bids b JOIN rates FOR SYSTEM_TIME AS OF b.at AS r ON b.auction = r.id"
MATCH = (
    "SELECT * FROM bids MATCH_RECOGNIZE (PARTITION BY bidder ORDER BY at MEASURES A.price AS a ONE ROW PER MATCH "
    "AFTER MATCH SKIP PAST LAST ROW PATTERN (A B+ C) WITHIN INTERVAL '1' HOUR "
    "DEFINE A AS A.price < 10, B AS B.price > 100, C AS C.price < 10) AS m"
)
LOOKUP = "SELECT /*+ LOOKUP('table'='l', 'async'='true') */ b.price, l.name FROM bids b JOIN looked FOR SYSTEM_TIME AS OF b.pt AS l ON b.auction = l.id"
SESSIONS = "SELECT price, window_end FROM TABLE(SESSION(TABLE bids PARTITION BY bidder, DESCRIPTOR(at), INTERVAL '5' MINUTE))"
# A query of each operator that keeps state, by the name of the operator.
QUERIES = {
    "GroupAggregate": "SELECT auction, SUM(price) AS total FROM bids GROUP BY auction",
    "WindowAggregate": windows(TUMBLE),
    "OverAggregate": OVER,
    "Rank": TOP,
    "Deduplicate": FIRST,
    "WindowRank": WINDOW_TOP,
    "Sort": "SELECT price FROM bids ORDER BY at, price",
    "SessionTableFunction": SESSIONS,
    "ChangelogNormalize": "SELECT id, name FROM users",
    "UpsertMaterialize": "INSERT INTO sink SELECT person, price FROM changing",
    "FinalTable": "SELECT id, price FROM changing",
    "MatchRecognize": MATCH,
    "Join": JOIN,
    "IntervalJoin": INTERVAL,
    "WindowJoin": WINDOW_JOIN,
    "TemporalJoin": TEMPORAL,
    "LookupJoin": LOOKUP,
}


def in_batch_mode(operator: str) -> bool:
    return operator == "FinalTable"


def test_every_operator_of_queries_that_keeps_state_is_described() -> None:
    for module in pkgutil.iter_modules(penstock.graph.operator_specs.columnar.__path__):
        importlib.import_module(f"penstock.graph.operator_specs.columnar.{module.name}")
    stateful = {
        kind.__name__
        for kind in spec_kinds()
        if kind.__module__.startswith(penstock.graph.operator_specs.columnar.__name__)
        and keeps_state(kind)
    }
    assert {name.removeprefix("Columnar").removesuffix("Spec") for name in stateful} == set(QUERIES)


def test_every_operator_that_keeps_state_has_a_description_in_the_plan() -> None:
    def check(operator: str) -> None:
        found = described(QUERIES[operator], batch=in_batch_mode(operator))
        assert all(each is not None for _, each in found)
        assert operator in {each.operator for _, each in found if each is not None}

    check_all({name: name for name in QUERIES}, check)


def test_the_time_to_live_reaches_every_operator_that_forgets() -> None:
    """Windows, joins within intervals, patterns and sorts forget by the watermark."""
    by_time = {"WindowAggregate", "WindowRank", "Sort", "SessionTableFunction", "FinalTable", "MatchRecognize", "IntervalJoin", "WindowJoin", "LookupJoin"}  # fmt: skip
    for operator, query in QUERIES.items():
        if operator in by_time:
            continue
        plan = planner(Toys(), table_exec_state_ttl="1 h").plan(
            [logical_plan(query, Catalog(*TABLES))]
        )
        found = {
            name: getattr(node.spec, name)
            for node in plan.nodes
            if isinstance(node, PhysicalOperator)
            and type(node.spec).__name__.removeprefix("Columnar") == f"{operator}Spec"
            for name in ("ttl_ms", "left_ttl_ms", "right_ttl_ms")
            if hasattr(node.spec, name)
        }
        assert found, operator
        assert set(found.values()) == {3_600_000}, (operator, found)


class Change(NamedTuple):
    """Two queries, and the parts in which the state of an operator differs; none if the state goes on."""

    operator: str
    old: str
    new: str
    parts: tuple[str, ...] = ()


def _replaced(operator: str, old: str, new: str, *parts: str) -> Change:
    query = QUERIES[operator]
    assert old in query, (operator, old)
    return Change(operator, query, query.replace(old, new), parts)


GROUPS = QUERIES["GroupAggregate"]
UNITED = "SELECT a, SUM(p) FROM (SELECT auction AS a, price AS p FROM bids UNION ALL SELECT auction, price FROM asks) GROUP BY a"
CHANGED = {
    "one branch of a union": Change(
        "GroupAggregate", UNITED, UNITED.replace("price FROM asks", "price * 2 FROM asks"), ("aggregates",)
    ),
    "key of a branch": Change(
        "GroupAggregate", UNITED, UNITED.replace("auction, price FROM asks", "seller, price FROM asks"), ("keys",)
    ),
    "one more branch": Change(
        "GroupAggregate", UNITED, UNITED.replace(") GROUP", " UNION ALL SELECT id, price FROM moments) GROUP"), ("keys", "aggregates")
    ),
    # Aggregates, keys, types
    "another function": _replaced("GroupAggregate", "SUM", "MAX", "aggregates"),
    "one more function": _replaced("GroupAggregate", "SUM(price) AS total", "SUM(price), COUNT(*)", "aggregates"),
    "another column": _replaced("GroupAggregate", "SUM(price)", "SUM(tip)", "aggregates"),
    "a computed column": _replaced("GroupAggregate", "SUM(price)", "SUM(price * 2)", "aggregates"),
    "another type": _replaced("GroupAggregate", "SUM(price)", "SUM(small)", "aggregates"),
    "distinct values": _replaced("GroupAggregate", "SUM(price)", "SUM(DISTINCT price)", "aggregates"),
    "a filter of the aggregate": _replaced("GroupAggregate", "SUM(price)", "SUM(price) FILTER (WHERE tip > 1)", "aggregates"),
    "another key": Change("GroupAggregate", GROUPS, GROUPS.replace("auction", "bidder"), ("keys",)),
    "one more key": Change("GroupAggregate", GROUPS, GROUPS.replace("auction", "auction, bidder"), ("keys",)),
    "another table": Change(
        "GroupAggregate", GROUPS, "SELECT id, SUM(price) FROM moments GROUP BY id", ("keys",)
    ),
    "keys in another order": Change(
        "GroupAggregate",
        "SELECT auction, bidder, SUM(price) FROM bids GROUP BY auction, bidder",
        "SELECT auction, bidder, SUM(price) FROM bids GROUP BY bidder, auction",
        ("keys",),
    ),
    "values that count if they are NULL": Change(
        "GroupAggregate",
        "SELECT auction, ARRAY_AGG(channel) FROM bids GROUP BY auction",
        "SELECT auction, ARRAY_AGG(channel) IGNORE NULLS FROM bids GROUP BY auction",
        ("aggregates",),
    ),
    "input with updates": Change(
        "GroupAggregate",
        "SELECT SUM(price) FROM bids GROUP BY price",
        "SELECT SUM(price) FROM changing GROUP BY price",
        ("input",),
    ),
    # Windows
    "size of TUMBLE": _replaced("WindowAggregate", "'20' SECOND", "'30' SECOND", "window"),
    "offset of TUMBLE": _replaced("WindowAggregate", "'20' SECOND)", "'20' SECOND, INTERVAL '5' SECOND)", "window"),
    "TUMBLE to HOP": _replaced(
        "WindowAggregate", "TUMBLE(TABLE bids, DESCRIPTOR(at),", "HOP(TABLE bids, DESCRIPTOR(at), INTERVAL '10' SECOND,", "window"
    ),
    "slide of HOP": Change(
        "WindowAggregate",
        windows("HOP(TABLE bids, DESCRIPTOR(at), INTERVAL '10' SECOND, INTERVAL '1' MINUTE)"),
        windows("HOP(TABLE bids, DESCRIPTOR(at), INTERVAL '20' SECOND, INTERVAL '1' MINUTE)"),
        ("window",),
    ),
    "step of CUMULATE": Change(
        "WindowAggregate",
        windows("CUMULATE(TABLE bids, DESCRIPTOR(at), INTERVAL '10' SECOND, INTERVAL '1' MINUTE)"),
        windows("CUMULATE(TABLE bids, DESCRIPTOR(at), INTERVAL '20' SECOND, INTERVAL '1' MINUTE)"),
        ("window",),
    ),
    "gap of SESSION": Change(
        "WindowAggregate",
        windows("SESSION(TABLE bids PARTITION BY auction, DESCRIPTOR(at), INTERVAL '1' MINUTE)"),
        windows("SESSION(TABLE bids PARTITION BY auction, DESCRIPTOR(at), INTERVAL '2' MINUTE)"),
        ("window",),
    ),
    "aggregate of a window": _replaced("WindowAggregate", "SUM(price)", "MAX(price)", "aggregates"),
    "key of a window": Change(
        "WindowAggregate", windows(TUMBLE), windows(TUMBLE).replace("auction", "bidder"), ("keys",)
    ),
    "windows that rows have got before": Change(
        "WindowAggregate",
        "SELECT SUM(price) FROM (" + WINDOW_TOP + ") GROUP BY window_start, window_end",
        "SELECT SUM(price) FROM (" + WINDOW_TOP.replace("'20'", "'30'") + ") GROUP BY window_start, window_end",
        ("window",),
    ),
    "gap of a table of sessions": _replaced("SessionTableFunction", "'5' MINUTE", "'6' MINUTE", "window"),
    "partition of a table of sessions": _replaced("SessionTableFunction", "PARTITION BY bidder", "PARTITION BY auction", "window", "rows"),
    # OVER
    "rows of a frame": _replaced("OverAggregate", "5 PRECEDING", "9 PRECEDING", "frame"),
    "ROWS to RANGE": _replaced("OverAggregate", "ROWS BETWEEN 5", "RANGE BETWEEN INTERVAL '5' SECOND", "frame"),
    "a frame without an end": _replaced("OverAggregate", "5 PRECEDING", "UNBOUNDED PRECEDING", "frame"),
    "aggregate OVER": _replaced("OverAggregate", "SUM(price)", "MAX(price)", "aggregates"),
    "partition OVER": _replaced("OverAggregate", "PARTITION BY auction", "PARTITION BY bidder", "keys", "rows"),
    # Top-N, deduplication, ORDER BY
    "limit of Top-N": _replaced("Rank", "place <= 3", "place <= 5", "ranks"),
    "order of Top-N": _replaced("Rank", "ORDER BY price", "ORDER BY price DESC", "order"),
    "NULLs of Top-N": _replaced("Rank", "ORDER BY price", "ORDER BY price NULLS LAST", "order"),
    "partition of Top-N": _replaced("Rank", "PARTITION BY auction", "PARTITION BY channel", "keys", "rows"),
    "columns of Top-N": _replaced("Rank", "SELECT auction, price", "SELECT auction, price, tip", "rows"),
    "function of Top-N": _replaced("Rank", "ROW_NUMBER()", "RANK()", "ranks"),
    "last instead of first": _replaced("Deduplicate", "ORDER BY pt", "ORDER BY pt DESC", "kept"),
    "by another time": _replaced("Deduplicate", "ORDER BY pt", "ORDER BY at", "kept", "rows"),
    "key of deduplication": _replaced("Deduplicate", "PARTITION BY auction", "PARTITION BY bidder", "keys", "rows"),
    "limit in windows": _replaced("WindowRank", "place <= 3", "place <= 4", "ranks"),
    "size of the windows of Top-N": _replaced("WindowRank", "'20' SECOND", "'30' SECOND", "window", "rows"),
    "order of rows": _replaced("Sort", "ORDER BY at, price", "ORDER BY at, price DESC", "order"),
    # Changelogs
    "columns of upserts": _replaced("ChangelogNormalize", "id, name", "id, name, city", "rows"),
    "columns of a sink's rows": _replaced("UpsertMaterialize", "person, price", "person, price + 1", "rows"),
    "columns of the final table": _replaced("FinalTable", "id, price", "id, person", "rows"),
    # MATCH_RECOGNIZE
    "pattern": _replaced("MatchRecognize", "(A B+ C)", "(A B* C)", "pattern"),
    "a definition": _replaced("MatchRecognize", "B.price > 100", "B.price > 200", "define"),
    "the columns of measures": _replaced("MatchRecognize", "A.price AS a", "A.tip AS a", "measures"),
    "where to go on": _replaced("MatchRecognize", "SKIP PAST LAST ROW", "SKIP TO NEXT ROW", "after match"),
    "how long a match may take": _replaced("MatchRecognize", "INTERVAL '1' HOUR", "INTERVAL '2' HOUR", "within"),
    "partition of a pattern": _replaced("MatchRecognize", "PARTITION BY bidder", "PARTITION BY auction", "keys"),
    # Joins
    "condition of an outer join": _replaced("Join", "b.price > a.price", "b.price < a.price", "condition"),
    "keys of a join": _replaced("Join", "b.auction = a.auction", "b.bidder = a.seller", "keys", "left rows", "right rows"),
    "null-safe keys": _replaced("Join", "b.auction = a.auction", "b.auction IS NOT DISTINCT FROM a.auction", "keys"),
    "kind of a join": _replaced("Join", "LEFT JOIN", "FULL JOIN", "join"),
    "columns of a join": _replaced("Join", "b.price, a.seller", "b.price, b.tip, a.seller", "left rows"),
    "condition with updates": Change(
        "Join",
        "SELECT c.price FROM changing c JOIN asks a ON c.id = a.auction AND c.price > a.price",
        "SELECT c.price FROM changing c JOIN asks a ON c.id = a.auction AND c.price < a.price",
        ("condition",),
    ),
    "bounds of an interval": _replaced("IntervalJoin", "'4' HOUR", "'5' HOUR", "interval"),
    "keys of an interval join": _replaced("IntervalJoin", "b.auction = a.auction", "b.auction = a.seller", "keys", "right rows"),
    "windows of a join": Change(
        "WindowJoin", WINDOW_JOIN, WINDOW_JOIN.replace("'20'", "'30'"), ("left rows", "right rows", "windows")
    ),
    "keys of a window join": _replaced("WindowJoin", "l.auction = r.auction", "l.auction = r.seller", "keys", "right rows"),
    "columns of a temporal join": _replaced("TemporalJoin", "r.rate", "r.rate, r.tax", "right rows"),
    "keys of a temporal join": _replaced("TemporalJoin", "b.auction = r.id", "b.bidder = r.id", "keys", "left rows"),
    "rows that wait for answers": _replaced("LookupJoin", "b.price, l.name", "b.price, b.tip, l.name", "rows"),
}  # fmt: skip


def test_changes_of_a_query_that_its_state_does_not_survive_are_noticed() -> None:
    def check(change: Change) -> None:
        batch = in_batch_mode(change.operator)
        old = state_of(change.old, change.operator, batch=batch)
        new = state_of(change.new, change.operator, batch=batch)
        assert set(changed_parts(old, new)) == set(change.parts), f"{old}\n{new}"
        assert str(old) != str(new)

    check_all(CHANGED, check)


SAME = {
    "another alias": _replaced("GroupAggregate", "AS total", "AS amount"),
    "columns in another order": _replaced("GroupAggregate", "auction, SUM(price) AS total", "SUM(price) AS total, auction"),
    "a filter before": _replaced("GroupAggregate", "FROM bids", "FROM bids WHERE price > 10 AND channel = 'a'"),
    "a filter behind": Change("GroupAggregate", GROUPS, f"{GROUPS} HAVING SUM(price) > 3"),
    "a subquery": Change(
        "GroupAggregate", GROUPS, "SELECT a, SUM(p) FROM (SELECT auction AS a, price AS p FROM bids) GROUP BY a"
    ),
    "one more branch behind": Change("GroupAggregate", GROUPS, f"{GROUPS} UNION ALL SELECT auction, price FROM asks"),
    "a filter in a branch": Change("GroupAggregate", UNITED, UNITED.replace("FROM asks", "FROM asks WHERE price > 3")),
    "a computed result": _replaced("WindowAggregate", "SUM(price) AS total", "SUM(price) * 2 AS twice"),
    "bounds of the window": _replaced("WindowAggregate", "SUM(price) AS total", "SUM(price) AS total, window_end"),
    "a filter before a window": Change(
        "WindowAggregate", windows(TUMBLE), windows(TUMBLE).replace(" GROUP", " WHERE price > 3 GROUP")
    ),
    "number of a place": _replaced("Rank", "SELECT auction, price", "SELECT auction, price, place"),
    "a filter before Top-N": _replaced("Rank", "FROM bids", "FROM bids WHERE auction > 7"),
    "names of measures": _replaced("MatchRecognize", "AS a ONE", "AS first_price ONE"),
    "condition of an inner join": Change("Join", INNER, INNER.replace("b.price > a.price", "b.price < a.price")),
    "names of tables in a join": Change("Join", JOIN, JOIN.replace("b.", "x.").replace("bids b", "bids x")),
    "condition of a temporal join": _replaced("TemporalJoin", "b.auction = r.id", "b.auction = r.id AND b.price > r.rate"),
}  # fmt: skip


def test_changes_of_a_query_that_do_not_concern_its_state_are_not_noticed() -> None:
    def check(change: Change) -> None:
        old, new = (state_of(each, change.operator) for each in (change.old, change.new))
        assert changed_parts(old, new) == [], f"{old}\n{new}"

    check_all(SAME, check)


def _with_bids(*changes: tuple[str, str]) -> tuple[str, ...]:
    bids, *others = TABLES
    for old, new in changes:
        assert old in bids
        bids = bids.replace(old, new)
    return (bids, *others)


def test_renamed_columns_and_tables_keep_their_state() -> None:
    cases = {
        "a column": (_with_bids(("price BIGINT", "amount BIGINT")), GROUPS.replace("price", "amount")),
        "a table": (_with_bids(("TABLE bids", "TABLE offers")), GROUPS.replace("bids", "offers")),
        "a column more": (_with_bids(("(auction", "(region STRING, auction")), GROUPS),
        "NOT NULL": (_with_bids(("price BIGINT", "price BIGINT NOT NULL")), GROUPS),
    }  # fmt: skip

    def check(case: tuple[tuple[str, ...], str]) -> None:
        tables, query = case
        old, new = (
            state_of(GROUPS, "GroupAggregate"),
            state_of(query, "GroupAggregate", tables=tables),
        )
        assert changed_parts(old, new) == [], f"{old}\n{new}"

    check_all(cases, check)


def test_a_column_in_place_of_one_that_was_dropped_is_noticed() -> None:
    tables = _with_bids(("price BIGINT, ", ""))
    old = state_of(GROUPS, "GroupAggregate")
    new = state_of(GROUPS.replace("price", "tip"), "GroupAggregate", tables=tables)
    assert changed_parts(old, new) == ["aggregates"]


def test_lengths_of_texts_do_not_matter_and_types_do() -> None:
    keyed = "SELECT channel, COUNT(*) FROM bids GROUP BY channel"
    old = state_of(keyed, "GroupAggregate")
    longer = _with_bids(("VARCHAR(10)", "STRING"))
    assert changed_parts(old, state_of(keyed, "GroupAggregate", tables=longer)) == []
    number = _with_bids(("VARCHAR(10)", "BIGINT"))
    assert changed_parts(old, state_of(keyed, "GroupAggregate", tables=number)) == ["keys"]


def test_digits_of_times_matter_where_they_decide_how_values_are_kept() -> None:
    keyed = "SELECT seen, COUNT(*) FROM bids GROUP BY seen"
    old = state_of(keyed, "GroupAggregate", tables=_with_bids(("_LTZ(3)", "_LTZ(4)")))
    for digits, parts in ((0, ["keys"]), (3, ["keys"]), (6, []), (9, ["keys"])):
        tables = _with_bids(("_LTZ(3)", f"_LTZ({digits})"))
        new = state_of(keyed, "GroupAggregate", tables=tables)
        assert changed_parts(old, new) == parts, digits


def test_rows_that_wait_for_a_sink_are_known_by_another_key() -> None:
    """What is taken back is found among the rows of a primary key by the key of the query."""
    kept = "CREATE TABLE kept (id BIGINT, person BIGINT, price BIGINT, PRIMARY KEY (price) NOT ENFORCED) WITH ('connector' = 'toy', 'mode' = 'upsert')"
    others = tuple(each for each in TABLES if "TABLE changing" not in each)
    (changing,) = set(TABLES) - set(others)
    found = [
        state_of(
            "INSERT INTO kept SELECT id, person, price FROM changing",
            "UpsertMaterialize",
            tables=(*others, kept, changing.replace("KEY (id)", f"KEY ({key})")),
        )
        for key in ("id", "id, person")
    ]
    assert changed_parts(*found) == ["upsert key"]


def test_options_that_decide_how_a_query_runs() -> None:
    cases = {
        "two phases": ("GroupAggregate", GROUPS, {"table_optimizer_agg__phase__strategy": "TWO_PHASE"}, []),
        "windows in two phases": (
            "WindowAggregate", windows(TUMBLE), {"table_optimizer_agg__phase__strategy": "TWO_PHASE"}, [],
        ),
        "state that expires": ("GroupAggregate", GROUPS, {"table_exec_state_ttl": "1 h"}, ["expires"]),
        "a join that expires": (
            "Join", JOIN.replace("LEFT ", ""), {"table_exec_state_ttl": "1 h"}, ["left expires", "right expires"],
        ),
        "versions that expire": (
            "TemporalJoin", TEMPORAL.replace("OF b.at", "OF b.pt"), {"table_exec_state_ttl": "1 h"}, ["expires"],
        ),
        "an outer join that expires": (
            "Join", JOIN, {"table_exec_state_ttl": "1 h"}, ["left expires", "right expires", "partners"],
        ),
    }  # fmt: skip

    def check(case: tuple[str, str, dict[str, str], list[str]]) -> None:
        operator, query, options, parts = case
        assert (
            changed_parts(state_of(query, operator), state_of(query, operator, **options)) == parts
        )

    check_all(cases, check)
    hour, day = (
        state_of(GROUPS, "GroupAggregate", table_exec_state_ttl=each) for each in ("1 h", "1 d")
    )
    assert changed_parts(hour, day) == []


def test_the_session_time_zone_matters_where_it_decides_values() -> None:
    daily = "SELECT DATE_FORMAT(seen, 'yyyy-MM-dd') AS d, COUNT(*) FROM bids GROUP BY DATE_FORMAT(seen, 'yyyy-MM-dd')"
    cases = {
        "text of a moment": ("GroupAggregate", daily, ["keys"]),
        "moments as they are": ("GroupAggregate", "SELECT seen, COUNT(*) FROM bids GROUP BY seen", []),
        "windows over moments": (
            "WindowAggregate", windows("TUMBLE(TABLE moments, DESCRIPTOR(ltz), INTERVAL '1' DAY)", "COUNT(*)", ""), ["window"],
        ),
        "windows over local times": ("WindowAggregate", windows(TUMBLE), []),
    }  # fmt: skip

    def check(case: tuple[str, str, list[str]]) -> None:
        operator, query, parts = case
        old, new = (state_of(query, operator, zone=zone) for zone in ("UTC", "Asia/Tokyo"))
        assert changed_parts(old, new) == parts, f"{old}\n{new}"

    check_all(cases, check)


def test_expressions_that_grow_with_every_level_have_descriptions_that_do_not() -> None:
    query = "SELECT auction AS x0, price AS y0 FROM bids"
    for level in range(40):
        query = f"SELECT x{level} AS x{level + 1}, y{level} * y{level} + 1 AS y{level + 1} FROM ({query})"
    old = state_of(f"SELECT x40, SUM(y40) FROM ({query}) GROUP BY x40", "GroupAggregate")
    assert len(str(old)) < 2000
    other = query.replace("price AS y0", "tip AS y0")
    new = state_of(f"SELECT x40, SUM(y40) FROM ({other}) GROUP BY x40", "GroupAggregate")
    assert changed_parts(old, new) == ["aggregates"]
    changed = query.replace("y7 * y7 + 1", "y7 * y7 + 2")
    new = state_of(f"SELECT x40, SUM(y40) FROM ({changed}) GROUP BY x40", "GroupAggregate")
    assert changed_parts(old, new) == ["aggregates"]
