"""What rules make of whole queries: what may move, what is shared, and what must stay where it is."""

from __future__ import annotations

from dataclasses import replace

import pytest

from penstock.catalogs.reader import UserFunction
from penstock.graph.operator_specs.columnar.aggregates import GroupAggregateSpec, OverAggregateSpec
from penstock.graph.operator_specs.columnar.joins import (
    ColumnarIntervalJoinSpec,
    JoinSpec,
    WindowJoinSpec,
)
from penstock.graph.operator_specs.columnar.ranks import RankSpec
from penstock.sql.expr.nodes import Rex, UserCall, walk
from penstock.sql.logical.nodes import (
    Field,
    LogicalAggregate,
    LogicalFilter,
    LogicalProject,
    LogicalSetOperation,
)
from penstock.sql.physical.async_calls import set_async_options
from penstock.sql.rules.unite_writes import unite_writes
from penstock.sql.udf.runners import AsyncCallSettings, AsyncRunner
from penstock.table import DataTypes
from penstock.table.udf import udf
from tests.builders.plan_runs import PlanRun
from tests.unit.sql.logical.plans import Catalog
from tests.unit.sql.logical.plans import plan as logical_plan
from tests.unit.sql.physical.plans import (
    INT,
    LONG,
    Toys,
    call,
    count,
    kinds,
    number,
    planner,
    ref,
    scan,
    shown,
    table,
)
from tests.unit.sql.sql_plans import CAN, planned, spec_of

TUMBLED = "(SELECT * FROM TABLE(TUMBLE(TABLE visits, DESCRIPTOR(seen), INTERVAL '1' MINUTE)))"
SESSIONS = "TABLE(SESSION(TABLE visits PARTITION BY person, DESCRIPTOR(seen), INTERVAL '1' MINUTE))"


def test_a_condition_on_rows_stays_behind_sessions() -> None:
    """A row that is left out before would not keep its session open."""
    text = shown(planned(f"SELECT id, window_start FROM {SESSIONS} WHERE page = 'home'"))
    assert text.index("page = 'home'") < text.index("WindowTableFunction(")


def test_groups_that_two_read_with_different_conditions_are_made_once() -> None:
    bids = scan(table("bids", {"auction": INT, "bidder": INT}))
    counts = LogicalAggregate(
        schema=(bids.schema[1], Field("n", LONG)), input=bids, keys=(1,), aggregates=(count(),)
    )
    parts = tuple(
        LogicalFilter(
            schema=counts.schema, input=counts, condition=call(sign, ref(counts, 0), number(5))
        )
        for sign in "<>"
    )
    both = LogicalSetOperation(schema=counts.schema, parts=parts, kind="UNION", all=True)
    assert kinds(both).count("GroupAggregate") == 1


def test_aggregates_whose_filter_is_chance_run_apart() -> None:
    bids = scan(table("bids", {"auction": INT, "bidder": INT}))

    def counted(what: Rex) -> LogicalAggregate:
        some = replace(count(), filter=call("<", what, number(5)))
        schema = (bids.schema[1], Field("n", LONG))
        return LogicalAggregate(schema=schema, input=bids, keys=(1,), aggregates=(some,))

    found = []
    for what in (call("RAND", kind=INT), ref(bids, 0)):
        parts = (counted(what), counted(what))
        both = LogicalSetOperation(schema=parts[0].schema, parts=parts, kind="UNION", all=True)
        found.append(kinds(both).count("GroupAggregate"))
    assert found == [2, 1]


CHANCE = ["RAND()", "RAND_INTEGER(10)", "UUID()", "UNIX_TIMESTAMP()", "NOW()", "CURRENT_TIMESTAMP", "CURRENT_ROW_TIMESTAMP()"]  # fmt: skip
CHANCE += ["LOCALTIMESTAMP", "LOCALTIME", "CURRENT_TIME", "CURRENT_DATE", "PROCTIME()"]


def test_non_deterministic_expression_is_computed_once_before_its_filter() -> None:
    for function in CHANCE:
        name = function.partition("(")[0]
        rows = f"SELECT UPPER(CAST({function} AS STRING)) AS r, id FROM orders"
        text = shown(planned(f"SELECT r, id FROM ({rows}) WHERE r > 'A'"))
        assert text.count(f"{name}(") == 1, function
        assert text.index("where=[(r > 'A')]") < text.index(name), function


def test_functions_of_users_are_called_once_before_a_condition_on_their_result() -> None:
    tables = Catalog("CREATE TABLE t (a INT, b INT) WITH ('connector' = 'toy')")
    doubled = udf(lambda value: 2 * value, result_type=DataTypes.INT())
    tables.functions["f"] = UserFunction(
        name="f", kind="SCALAR", function=doubled, result_types=(INT,)
    )
    query = "SELECT x, b FROM (SELECT f(a) AS x, b FROM t) WHERE x > 1 AND b > 2"
    text = shown(planned(query, tables=tables))
    assert text.count("f(a)") == 1
    assert text.index("x > 1") < text.index("f(a)") < text.index("b > 2")


def test_the_column_that_says_how_many_rows_are_wanted_is_read() -> None:
    ranked = "SELECT *, ROW_NUMBER() OVER (PARTITION BY person ORDER BY id) AS rn FROM orders"
    spec = spec_of(planned(f"SELECT id FROM ({ranked}) WHERE rn <= price"), RankSpec)
    assert len(spec.input_types) == 3
    assert spec.end_column not in {None, *spec.keys}


# Conditions on the number of a row, and the places that are wanted.
PLACES = {
    "rn <= 3": (1, 3),
    "rn < 3": (1, 2),
    "3 > rn": (1, 2),
    "3 >= rn": (1, 3),
    "rn = 2": (2, 2),
    "rn > 1 AND rn < 5": (2, 4),
    "2 <= rn AND rn <= 5 AND rn <= 4": (2, 4),
    "rn BETWEEN 2 AND 3": (2, 3),
}


def test_conditions_on_the_number_of_a_row_are_places() -> None:
    ranked = "SELECT id, ROW_NUMBER() OVER (ORDER BY id) AS rn FROM orders"
    found = {}
    for condition in PLACES:
        spec = spec_of(planned(f"SELECT id FROM ({ranked}) WHERE {condition}"), RankSpec)
        found[condition] = (spec.start, spec.end)
    assert found == PLACES


@pytest.mark.parametrize(
    ("kind", "side", "expected"),
    [
        ("INNER", "l", "WindowAggregate"),
        ("LEFT", "l", "WindowAggregate"),
        ("RIGHT", "r", "WindowAggregate"),
        ("RIGHT", "l", "GroupAggregate"),
        ("LEFT", "r", "GroupAggregate"),
        ("FULL", "l", "GroupAggregate"),
        ("FULL", "r", "GroupAggregate"),
    ],
)
def test_joined_rows_carry_the_window_of_the_side_that_is_always_there(
    kind: str, side: str, expected: str
) -> None:
    join = f"{TUMBLED} l {kind} JOIN {TUMBLED} r ON l.person = r.person AND l.window_start = r.window_start AND l.window_end = r.window_end"
    group = f"{side}.window_start, {side}.window_end"
    found = kinds(planned(f"SELECT {group}, COUNT(*) AS n FROM {join} GROUP BY {group}"))
    assert next(each for each in found if each.endswith("Aggregate")) == expected


SECOND = "INTERVAL '1' SECOND"
# Conditions on the times of two rows: how far the left one may be from the right one, in milliseconds.
INTERVALS = {
    f"l.seen BETWEEN r.seen - {SECOND} AND r.seen + {SECOND}": (-1000, 1000),
    f"l.seen + {SECOND} >= r.seen AND l.seen <= r.seen": (-1000, 0),
    f"l.seen > r.seen - {SECOND} AND l.seen - {SECOND} < r.seen": (-999, 999),
    f"r.seen <= l.seen AND l.seen < r.seen + {SECOND}": (0, 999),
    f"r.seen - {SECOND} <= l.seen - {SECOND} AND r.seen + {SECOND} > l.seen": (0, 999),
}


def test_conditions_on_two_times_are_an_interval_of_the_left_one() -> None:
    found = {}
    for condition in INTERVALS:
        query = (
            f"SELECT l.id, r.id FROM visits l JOIN visits r ON l.person = r.person AND {condition}"
        )
        spec = spec_of(planned(query), ColumnarIntervalJoinSpec)
        found[condition] = (spec.lower, spec.upper)
    assert found == INTERVALS


def test_a_count_of_no_rows_in_two_levels_is_zero_and_a_sum_is_null() -> None:
    calls = "COUNT(DISTINCT price) AS n, SUM(DISTINCT id) AS s FROM orders"
    split = {"table_optimizer_distinct__agg_split_enabled": "true"}
    text = shown(planned(f"SELECT {calls}", **split))
    assert text.splitlines()[0].count("COALESCE") == 1
    assert "AS n, $m1 AS s" in text.splitlines()[0]
    by_key = shown(planned(f"SELECT person, {calls} GROUP BY person", **split))
    assert "COALESCE" not in by_key


def test_conditions_reach_columns_behind_computed_ones() -> None:
    tables = Catalog(
        "CREATE TABLE t (twice AS a * 2, a INT, b INT, c INT) WITH ('connector' = 'toy', 'unbounded' = 'true', "
        f"'can' = '{CAN}')"
    )
    toys = Toys()
    query = "SELECT a, b FROM t WHERE b = 1 AND c > 5"
    plan = planner(toys).plan([logical_plan(query, tables)])
    # By position among the columns that are stored.
    assert [str(each) for each in toys.made[0].filters] == ["=($1, 1)"]
    run = PlanRun(plan)
    run.feed("t", *(("+I", (None, a, 1, c)) for a, c in ((1, 9), (9, 1), (2, 6))))
    run.drain()
    assert run.out == [("+I", (1, 1)), ("+I", (2, 1))]


def test_a_source_gives_all_rows_if_some_are_left_out_before_they_are_counted() -> None:
    toys = Toys()
    bids = table("bids", {"id": INT, "price": INT}, can=CAN)
    for condition in ("RAND() < 0.5", "id > 3"):
        tables = Catalog()
        tables.tables["bids"] = bids
        query = f"SELECT id FROM bids WHERE {condition} LIMIT 3"
        planner(toys).plan([logical_plan(query, tables)])
    assert [each.limit for each in toys.made] == [None, None]


def test_a_table_that_is_read_with_other_hints_is_read_again() -> None:
    part = "SELECT id FROM visits /*+ OPTIONS('start' = '{}') */"
    for second, times in (("1", 1), ("2", 2)):
        plan = planned(f"{part.format('1')} UNION ALL {part.format(second)}")
        assert kinds(plan).count("TableSourceScan") == times


def test_hints_of_aggregates_are_kept_with_grouping_sets() -> None:
    query = "SELECT /*+ STATE_TTL('orders' = '1 h') */ person, price, COUNT(*) FROM orders GROUP BY CUBE(person, price)"
    assert spec_of(planned(query), GroupAggregateSpec).ttl_ms == 3_600_000


def test_the_order_of_an_aggregate_is_read() -> None:
    plan = planned("SELECT person, ARRAY_AGG(id ORDER BY price) AS ids FROM orders GROUP BY person")
    assert "fields=[id, person, price]" in shown(plan)


FILES = """CREATE TABLE files (id INT NOT NULL, day STRING) PARTITIONED BY (day)
    WITH ('connector' = 'filesystem', 'path' = '/nowhere', 'format' = 'csv')"""
WRITES = {
    "the same table": ("INSERT INTO files SELECT id, name FROM people", 1),
    "another directory": ("INSERT INTO files /*+ OPTIONS('path' = '/elsewhere') */ SELECT id, name FROM people", 2),
    "a partition": ("INSERT INTO files PARTITION (day = 'x') SELECT id FROM people", 2),
    "the same table, emptied before": ("INSERT OVERWRITE files SELECT id, name FROM people", 2),
    "another connector": ("INSERT INTO sink SELECT id, age, age FROM people", 2),
}  # fmt: skip


@pytest.mark.parametrize("name", WRITES)
def test_only_inserts_into_the_same_files_are_united(name: str) -> None:
    tables = Catalog(
        FILES,
        "CREATE TABLE people (id INT NOT NULL, name STRING, age INT) WITH ('connector' = 'toy')",
        "CREATE TABLE sink (a INT, b INT, c INT) WITH ('connector' = 'toy')",
    )
    first = "INSERT INTO files SELECT age, name FROM people"
    other, writes = WRITES[name]
    roots = unite_writes([logical_plan(each, tables) for each in (first, other)])
    assert len(roots) == writes


def test_distinct_aggregates_of_group_windows_are_not_split() -> None:
    """Their two levels would be windows of what windows gave."""
    window = "TUMBLE(seen, INTERVAL '1' MINUTE)"
    split = {"table_optimizer_distinct__agg_split_enabled": "true"}
    query = f"SELECT person, COUNT(DISTINCT page) FROM visits GROUP BY person, {window}"
    assert kinds(planned(query, **split)) == kinds(planned(query))


def test_conditions_on_a_versioned_table_stay_behind_the_join() -> None:
    """Versions that are left out before would be missing, so that an older one would be found."""
    tables = Catalog(
        "CREATE TABLE visits (id INT, k INT, seen TIMESTAMP(3), WATERMARK FOR seen AS seen) WITH ('connector' = 'toy', 'unbounded' = 'true')",
        "CREATE TABLE rates (k INT, rate INT, at TIMESTAMP(3), PRIMARY KEY (k) NOT ENFORCED, WATERMARK FOR at AS at) WITH ('connector' = 'toy', 'mode' = 'upsert', 'unbounded' = 'true')",
    )
    for kind in ("INNER", "LEFT"):
        query = f"SELECT v.id, r.rate FROM visits v {kind} JOIN rates FOR SYSTEM_TIME AS OF v.seen AS r ON v.k = r.k WHERE r.rate > 3"
        text = shown(planned(query, tables=tables))
        assert text.index("(rate > 3)") < text.index("TemporalJoin"), kind


def test_asynchronous_functions_get_the_options_and_stay_apart() -> None:
    async def first(value: int) -> int:
        return value

    async def second(value: int) -> int:
        return -value

    tables = Catalog("CREATE TABLE t (a INT, b INT) WITH ('connector' = 'toy')")
    for name, function in (("f", first), ("g", second)):
        runner = AsyncRunner(udf(function, result_type=DataTypes.INT()))
        tables.functions[name] = UserFunction(
            name=name, kind="SCALAR", function=runner, result_types=(INT,)
        )
    settings = AsyncCallSettings(capacity=3)
    (node,) = set_async_options([logical_plan("SELECT f(a), g(a), f(b) FROM t", tables)], settings)
    assert isinstance(node, LogicalProject)
    f, g, again = (
        part.function
        for each in node.expressions
        for part in walk(each)
        if isinstance(part, UserCall)
    )
    assert f is again
    assert f.function is not g.function
    assert f.settings == g.settings == settings


# What is done with sessions of a person, and whether their rows must be given windows before.
OF_SESSIONS = {
    "SELECT person, COUNT(*) FROM {} GROUP BY window_start, window_end, person": False,
    "SELECT person, page, COUNT(*) FROM {} GROUP BY window_start, window_end, person, page": True,
    "SELECT page, COUNT(*) FROM {} GROUP BY window_start, window_end, page": True,
    "SELECT COUNT(*) FROM {} GROUP BY window_start, window_end": True,
    "SELECT MIN(person), COUNT(*) FROM {} GROUP BY window_start, window_end": True,
    "SELECT page, MIN(person) FROM {} GROUP BY window_start, window_end, page": True,
    "SELECT person, COUNT(*) FROM {} WHERE page = 'home' GROUP BY window_start, window_end, person": True,
}


@pytest.mark.parametrize("query", OF_SESSIONS)
def test_sessions_are_made_of_all_rows_of_their_partition(query: str) -> None:
    found = kinds(planned(query.format(SESSIONS)))
    assert ("WindowTableFunction" in found) == OF_SESSIONS[query]


# OVER by event time, and whether rows leave in its order, never to be changed.
IN_ORDER = {
    "SUM(id) OVER (PARTITION BY person ORDER BY seen)": True,
    "SUM(id) OVER (ORDER BY seen ROWS BETWEEN 2 PRECEDING AND CURRENT ROW)": True,
    "LAG(id) OVER (PARTITION BY person ORDER BY seen)": True,
    "SUM(id) OVER (ORDER BY seen ROWS BETWEEN CURRENT ROW AND 1 FOLLOWING)": False,
    "SUM(id) OVER (ORDER BY seen ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING)": False,
    "SUM(id) OVER (PARTITION BY person ORDER BY seen DESC)": False,
    "SUM(id) OVER (PARTITION BY person ORDER BY seen, id)": False,
    "SUM(id) OVER (PARTITION BY person)": False,
    "LEAD(id) OVER (ORDER BY seen)": False,
    "NTILE(2) OVER (ORDER BY seen)": False,
    "PERCENT_RANK() OVER (ORDER BY seen)": False,
    "CUME_DIST() OVER (ORDER BY seen)": False,
}


def test_rows_leave_in_the_order_of_time_if_no_later_row_is_looked_at() -> None:
    found = {
        call: spec_of(planned(f"SELECT id, {call} AS x FROM visits"), OverAggregateSpec).mode
        == "TIME"
        for call in IN_ORDER
    }
    assert found == IN_ORDER


TIMED = "id INT NOT NULL, at TIMESTAMP(3), WATERMARK FOR at AS at, PRIMARY KEY (id) NOT ENFORCED"


@pytest.mark.parametrize(("mode", "expected"), [("append", "IntervalJoin"), ("all", "Join")])
def test_rows_of_the_same_time_are_near_each_other_unless_they_change(
    mode: str, expected: str
) -> None:
    tables = Catalog(
        *(
            f"CREATE TABLE {name} ({TIMED}) WITH ('connector' = 'toy', 'mode' = '{mode}', 'unbounded' = 'true')"
            for name in ("l", "r")
        )
    )
    query = "SELECT l.id FROM l JOIN r ON l.id = r.id AND l.at = r.at"
    found = kinds(planned(query, tables=tables))
    assert next(each for each in found if each.endswith("Join")) == expected


BY_THE_CLOCK = "l.pt >= r.at AND l.pt <= r.at + INTERVAL '1' HOUR"
# Conditions on times of two clocks: the interval of the join, if it is one, and whether something else is left to check.
CLOCKS = {
    f"l.at = r.at AND {BY_THE_CLOCK}": ((0, 0), True),
    f"{BY_THE_CLOCK} AND l.at >= r.at AND l.at <= r.at + {SECOND}": ((0, 1000), True),
    f"l.pt >= r.pt - {SECOND} AND l.pt <= r.pt": ((-1000, 0), False),
    BY_THE_CLOCK: (None, True),
    "l.at IS NOT DISTINCT FROM r.at": (None, False),
}


@pytest.mark.parametrize("condition", CLOCKS)
def test_rows_are_near_each_other_by_one_clock(condition: str) -> None:
    """A time that goes by another clock is compared like any other value, and no condition is lost."""
    columns = "id INT, at TIMESTAMP_LTZ(3), WATERMARK FOR at AS at, pt AS PROCTIME()"
    tables = Catalog(
        *(
            f"CREATE TABLE {name} ({columns}) WITH ('connector' = 'toy', 'unbounded' = 'true')"
            for name in ("l", "r")
        )
    )
    query = f"SELECT l.id FROM l JOIN r ON l.id = r.id AND {condition}"
    plan = planned(query, tables=tables)
    interval, more = CLOCKS[condition]
    spec = spec_of(plan, JoinSpec if interval is None else ColumnarIntervalJoinSpec)
    assert (spec.condition is not None) == more
    if interval is not None:
        assert (spec.lower, spec.upper) == interval
    else:
        assert len(spec.left_keys) == 1 + ("NOT DISTINCT" in condition)


@pytest.mark.parametrize(("kind", "zone"), [("TIMESTAMP_LTZ(3)", "Asia/Tokyo"), ("TIMESTAMP(3)", "UTC")])  # fmt: skip
def test_windows_of_moments_end_by_the_clock_of_the_session(kind: str, zone: str) -> None:
    tables = Catalog(
        f"CREATE TABLE t (id INT, at {kind}, WATERMARK FOR at AS at) WITH ('connector' = 'toy', 'unbounded' = 'true')"
    )
    windows = "(SELECT * FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(at), INTERVAL '1' DAY)))"
    join = f"{windows} l JOIN {windows} r ON l.id = r.id AND l.window_start = r.window_start AND l.window_end = r.window_end"
    made = planner(Toys())
    made.settings = replace(made.settings, zone="Asia/Tokyo")
    plan = made.plan([logical_plan(f"SELECT l.id FROM {join}", tables, "Asia/Tokyo")])
    assert spec_of(plan, WindowJoinSpec).zone == zone


def test_the_first_rows_of_a_batch_are_in_their_order() -> None:
    tables = Catalog("CREATE TABLE t (id INT, x INT) WITH ('connector' = 'toy')")
    for end in ("", " LIMIT 3", " LIMIT 3 OFFSET 1"):
        query = f"SELECT id FROM t ORDER BY x, id{end}"
        found = kinds(planned(query, tables=tables, batch=True))
        assert next(each for each in found if each != "Calc") == "Sort"
