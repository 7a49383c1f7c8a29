"""The shapes of physical plans, query by query."""

from __future__ import annotations

import pytest

from penstock.graph.operator_specs.columnar.common import SortKey, WindowDefinition
from penstock.graph.operator_specs.columnar.stateless import WatermarkSpec
from penstock.sql.errors import ValidationError
from penstock.sql.expr.nodes import AggregateCall
from penstock.sql.logical.nodes import (
    Field,
    LogicalAggregate,
    LogicalFilter,
    LogicalJoin,
    LogicalOverAggregate,
    LogicalOverWindow,
    LogicalProject,
    LogicalSink,
    LogicalSort,
    LogicalTableFunctionScan,
    LogicalValues,
)
from penstock.sql.physical.advice import advice
from penstock.sql.physical.operators.constraint_enforcer import not_null_paths
from penstock.sql.types import (
    ArrayType,
    MapType,
    MultisetType,
    RowField,
    RowType,
)
from tests.unit.sql.physical.plans import (
    INT,
    LONG,
    TEXT,
    TIME,
    call,
    count,
    fields,
    kinds,
    number,
    planner,
    ref,
    scan,
    shown,
    table,
    timed,
)
from tests.unit.sql.sql_plans import planned, spec_of

BIDS = table("bids", {"auction": INT, "bidder": INT, "price": INT, "at": TIME})
USERS = table("users", {"id": INT, "name": TEXT}, key=("id",), mode="upsert")
READ = ["RowsToColumns", "TableSourceScan"]


def grouped(source, *keys):
    schema = (*(source.schema[key] for key in keys), Field("n", LONG))
    return LogicalAggregate(schema=schema, input=source, keys=keys, aggregates=(count(),))


def numbered(source, partition, order, function="ROW_NUMBER"):
    return LogicalOverAggregate(
        schema=(*source.schema, Field("rn", LONG)),
        input=source,
        window=LogicalOverWindow(partition, order),
        calls=(AggregateCall(function, (), LONG),),
    )


def first(source, many):
    return LogicalFilter(
        schema=source.schema,
        input=source,
        condition=call("<=", ref(source, len(source.schema) - 1), number(many)),
    )


def windows(source, kind="TUMBLE"):
    schema = (
        *source.schema,
        Field("window_start", TIME, None, "start"),
        Field("window_end", TIME, None, "end"),
        Field("window_time", TIME, "rowtime", "time"),
    )
    return LogicalTableFunctionScan(
        schema=schema, input=source, window=WindowDefinition(kind, 1000, 500, time=3)
    )


def test_projections_and_filters_in_a_row_are_one_operator():
    bids = scan(BIDS)
    cheap = LogicalFilter(
        schema=bids.schema, input=bids, condition=call("<", ref(bids, 2), number(10))
    )
    some = LogicalProject(
        schema=fields(p=INT, a=INT),
        input=cheap,
        expressions=(call("+", ref(bids, 2), number(1), kind=INT), ref(bids, 0)),
    )
    more = LogicalFilter(
        schema=some.schema, input=some, condition=call(">", ref(some, 1), number(3))
    )
    assert kinds(more) == ["Calc", *READ]
    assert (
        "Calc(select=[(price + 1) AS p, auction AS a], where=[((price < 10) AND (auction > 3))])"
        in shown(more)
    )


def test_groups_are_exchanged_by_their_keys_and_have_only_the_columns_that_they_need():
    text = shown(grouped(scan(BIDS), 1), changes=True)
    assert text.splitlines()[:3] == [
        "GroupAggregate(groupBy=[bidder], select=[bidder, COUNT(*) AS n], changelogMode=[I,UB,UA])",
        "+- Exchange(distribution=[hash[bidder]], changelogMode=[I])",
        "   +- Calc(select=[bidder], changelogMode=[I])",
    ]


def test_groups_without_keys_run_in_one_subtask():
    plan = planner().plan([grouped(scan(BIDS))])
    assert plan.result.inputs[0].single


def test_upserts_are_normalised_by_their_key():
    assert kinds(scan(USERS)) == ["ChangelogNormalize", "Exchange", *READ]


def test_upserts_without_a_key_are_refused():
    nameless = table("t", {"a": INT}, mode="upsert")
    with pytest.raises(ValidationError, match="has no primary key"):
        planner().plan([scan(nameless)])


@pytest.mark.parametrize(
    ("order", "many", "expected"),
    [
        ((SortKey(2, False),), 3, "Rank"),
        ((SortKey(3, False),), 1, "Deduplicate"),
        ((SortKey(3, True),), 1, "Deduplicate"),
        ((SortKey(3, True),), 2, "Rank"),
    ],
)
def test_a_filter_on_a_row_number_is_a_rank_or_a_deduplication(order, many, expected):
    over = numbered(timed(scan(BIDS), 3), (0,), order)
    assert expected in kinds(first(over, many))
    assert "OverAggregate" not in kinds(first(over, many))


def test_a_row_number_by_window_is_a_window_rank():
    over = numbered(windows(timed(scan(BIDS), 3)), (4, 5, 0), (SortKey(2, False),))
    text = shown(first(over, 3), changes=True)
    assert text.startswith("WindowRank(window=[window_start, window_end]")
    assert "changelogMode=[I])" in text.splitlines()[0]


def test_groups_by_window_give_final_rows():
    aggregate = grouped(windows(timed(scan(BIDS), 3)), 4, 5, 0)
    text = shown(aggregate, changes=True)
    assert "WindowAggregate(" in text
    assert "UA" not in text


def joined(left, right, condition, kind="INNER", temporal=None):
    return LogicalJoin(
        schema=(*left.schema, *right.schema),
        left=left,
        right=right,
        kind=kind,
        condition=condition,
        temporal=temporal,
    )


def equal(left, right, a, b):
    return call("=", ref(left, a), shifted(right, b, len(left.schema)))


def shifted(right, column, by):
    from penstock.sql.expr.nodes import InputRef

    return InputRef(right.schema[column].type, column + by)


def test_an_equality_is_a_key_of_a_join_and_the_rest_a_condition():
    left, right = scan(BIDS), scan(USERS)
    condition = call("AND", equal(left, right, 1, 0), call(">", ref(left, 2), number(5)))
    text = shown(joined(left, right, condition), changes=True)
    assert "Join(joinType=[InnerJoin], where=[bidder = id" in text
    assert "rightInputSpec=[JoinKeyContainsUniqueKey]" in text


def test_times_near_each_other_make_an_interval_join():
    import datetime as dt

    from penstock.sql.expr.nodes import Literal
    from penstock.sql.types import DayTimeIntervalType

    left, right = timed(scan(BIDS), 3), timed(scan(BIDS), 3)
    hour = Literal(DayTimeIntervalType(), dt.timedelta(hours=1))
    time, other = ref(left, 3), shifted(right, 3, 4)
    condition = call(
        "AND",
        equal(left, right, 0, 0),
        call("AND", call(">=", time, call("-", other, hour, kind=TIME)), call("<", time, other)),
    )
    text = shown(joined(left, right, condition), changes=True)
    assert text.startswith(
        "IntervalJoin(joinType=[InnerJoin], windowBounds=[isRowtime=true, leftLowerBound=-3600000, leftUpperBound=-1]"
    )


def test_rows_of_the_same_window_make_a_window_join():
    left, right = windows(timed(scan(BIDS), 3)), windows(timed(scan(BIDS), 3))
    condition = call(
        "AND",
        equal(left, right, 0, 1),
        call("AND", equal(left, right, 4, 4), equal(left, right, 5, 5)),
    )
    assert kinds(joined(left, right, condition, "FULL"))[0] == "WindowJoin"


def test_a_table_as_of_a_time_is_a_temporal_join():
    versions = table("rates", {"code": INT, "rate": INT, "since": TIME}, key=("code",), mode="all")
    left, right = timed(scan(BIDS), 3), timed(scan(versions), 2)
    whole = joined(left, right, equal(left, right, 0, 0), "LEFT", ref(left, 3))
    assert kinds(whole)[0] == "TemporalJoin"
    unknown = timed(scan(table("r", {"code": INT, "rate": INT, "since": TIME})), 2)
    with pytest.raises(ValidationError, match="needs a primary key"):
        planner().plan([joined(left, unknown, equal(left, unknown, 0, 0), "LEFT", ref(left, 3))])


def test_a_sort_with_a_limit_is_a_rank_and_one_without_is_refused():
    bids = scan(BIDS)
    top = LogicalSort(schema=bids.schema, input=bids, order=(SortKey(2),), limit=3)
    assert kinds(top) == ["SortLimit", "Exchange", *READ]
    with pytest.raises(ValidationError, match="or LIMIT"):
        planner().plan([LogicalSort(schema=bids.schema, input=bids, order=(SortKey(2),))])
    times = timed(bids, 3)
    assert kinds(LogicalSort(schema=times.schema, input=times, order=(SortKey(3),)))[0] == "Sort"


def write(source, **how):
    names = how.pop("names", [f.name for f in source.schema])
    columns = dict(zip(names, (f.type for f in source.schema), strict=True))
    return LogicalSink(schema=source.schema, input=source, table=table("out", columns, **how))


def test_a_table_that_only_grows_refuses_updates_and_says_who_makes_them():
    with pytest.raises(ValidationError) as caught:
        planner().plan([write(grouped(scan(BIDS), 1))])
    assert "doesn't support consuming update changes" in str(caught.value)
    assert "GroupAggregate(groupBy=[bidder]" in str(caught.value)


def test_upsert_tables_by_the_key_of_the_query_get_no_former_rows():
    plan = planner().plan([write(grouped(scan(BIDS), 1), mode="upsert", key=("bidder",))])
    text = shown(plan, changes=True)
    assert "SinkMaterializer" not in text
    assert "changelogMode=[I,UA])" in text


def test_upsert_tables_by_another_key_keep_the_rows_of_it():
    plan = planner().plan([write(grouped(scan(BIDS), 1), mode="upsert", key=("n",))])
    assert kinds(plan)[:4] == ["Sink", "SinkMaterializer", "Exchange", "GroupAggregate"]
    assert "changelogMode=[I,UB,UA])" in shown(plan, changes=True)


def test_a_filter_on_a_count_needs_former_rows():
    counts = grouped(scan(BIDS), 1)
    few = LogicalFilter(
        schema=counts.schema, input=counts, condition=call("<", ref(counts, 1), number(10))
    )
    plan = planner().plan([write(few, mode="upsert", key=("bidder",))])
    assert kinds(plan)[:3] == ["Sink", "DropUpdateBefore", "Calc"]
    by_key = LogicalFilter(
        schema=counts.schema, input=counts, condition=call("<", ref(counts, 0), number(10))
    )
    plan = planner().plan([write(by_key, mode="upsert", key=("bidder",))])
    assert "DropUpdateBefore" not in kinds(plan)


def test_explain_shows_a_plan_as_it_was_written_as_it_is_optimised_and_as_it_runs():
    counts = grouped(scan(BIDS), 1)
    plan = planner().plan([write(counts, mode="upsert", key=("bidder",))])
    text = plan.explain(["CHANGELOG_MODE", "JSON_EXECUTION_PLAN"])
    titles = [line for line in text.splitlines() if line.startswith("==")]
    assert titles == [
        "== Abstract Syntax Tree ==",
        "== Optimized Physical Plan ==",
        "== Optimized Execution Plan ==",
        "== Physical Execution Plan ==",
    ]
    assert "LogicalAggregate(group=[{bidder}], n=[COUNT(*)])" in text
    assert '"type": "GroupAggregate[5]"' in text
    assert plan.draw().startswith("<svg")


def test_advice_warns_of_growing_state():
    plan = planner().plan([joined_users()])
    assert "[WARNING] the state of Join(" in plan.explain(["PLAN_ADVICE"])
    kept = planner(table_exec_state_ttl="1 h").plan([joined_users()])
    assert "advice[1]: no advice" in kept.explain(["PLAN_ADVICE"])


SIDES = {
    "neither side": ("", True),
    "the left side": ("STATE_TTL('o' = '1 h')", True),
    "the right side": ("STATE_TTL('p' = '1 h')", True),
    "both sides": ("STATE_TTL('o' = '1 h', 'p' = '1 h')", False),
}


@pytest.mark.parametrize("expires", SIDES)
def test_a_join_grows_if_one_of_its_sides_does(expires):
    hint, grows = SIDES[expires]
    select = f"SELECT /*+ {hint} */" if hint else "SELECT"
    plan = planned(f"{select} o.id, p.name FROM orders o JOIN people p ON o.person = p.id")
    assert ("[WARNING] the state of Join(" in plan.explain(["PLAN_ADVICE"])) == grows


def test_the_gravest_advice_comes_first():
    query = "SELECT p.name, t.n FROM people p JOIN (SELECT person, n FROM (SELECT person, COUNT(*) AS n FROM orders GROUP BY person) ORDER BY n LIMIT 2) t ON p.id = t.person"
    found = advice(planned(query))
    words = [each.split("]")[0] for each in found]
    assert words == ["[WARNING", "[WARNING", "[ADVICE"]


def joined_users():
    left, right = scan(table("bids", {"bidder": INT}, unbounded="true")), scan(USERS)
    return joined(left, right, equal(left, right, 0, 0))


def test_the_same_statement_has_the_same_names_and_uids_each_time():
    from penstock.sql.physical.translate import translate

    def steps():
        plan = planner(table_exec_uid_generation="ALWAYS").plan([joined_users()])
        found, waiting = [], translate(plan)
        while waiting:
            step = waiting.pop()
            found.append((step.name, step.uid))
            waiting.extend(step.inputs)
        return found

    assert steps() == steps()
    assert ("Join[9]", "9_join") in steps()


def test_aggregates_that_can_be_put_together_are_folded_before_they_are_sent():
    two = planner(table_optimizer_agg__phase__strategy="TWO_PHASE")
    text = shown(two.plan([grouped(scan(BIDS), 1)]))
    assert text.splitlines()[:3] == [
        "GlobalGroupAggregate(groupBy=[bidder], select=[bidder, COUNT(...) AS n])",
        "+- Exchange(distribution=[hash[bidder]])",
        "   +- LocalGroupAggregate(groupBy=[bidder], select=[bidder, COUNT(*) AS $acc0])",
    ]
    windowed = shown(two.plan([grouped(windows(timed(scan(BIDS), 3)), 4, 5, 0)]))
    assert "LocalWindowAggregate(groupBy=[auction], window=[TUMBLE(size=[1 s])]" in windowed
    several = LogicalAggregate(
        schema=fields(bidder=INT, n=LONG),
        input=scan(BIDS),
        keys=(1,),
        aggregates=(AggregateCall("COUNT", (ref(scan(BIDS), 0),), LONG, distinct=True),),
    )
    assert "LocalGroupAggregate" not in kinds(two.plan([several]))


@pytest.mark.parametrize(("strategy", "sent"), [("FORCE", True), ("AUTO", False), ("NONE", False)])
def test_rows_go_to_sinks_by_primary_key_if_the_options_say_so(strategy, sent):
    from penstock.graph.transformations import PartitionTransformation
    from penstock.sql.physical.translate import translate

    some = planner(table_exec_sink_keyed__shuffle=strategy)
    (end,) = translate(some.plan([write(scan(BIDS), key=("auction",))]))
    before = end.inputs[0].inputs[0]
    assert isinstance(before, PartitionTransformation) == sent


def test_the_same_statement_has_the_same_operator_ids_each_time():
    """State is found by them when a job is started from a savepoint of another one with the same statement."""
    from penstock.graph.compiler import compile_program
    from penstock.graph.settings import GraphSettings
    from penstock.sql.physical.translate import translate

    def ids(parallelism):
        plans = compile_program(
            translate(planner().plan([joined_users()])), GraphSettings(parallelism=parallelism)
        )
        return [node.operator_id for node in plans.stream_graph.nodes]

    assert ids(1) == ids(4)


def test_watermarks_that_no_scan_emits_heed_the_idle_timeout():
    values = LogicalValues(schema=fields(id=INT, at=TIME), rows=())
    plan = planner(table_exec_source_idle__timeout="5 s").plan([timed(values, 1)])
    assert spec_of(plan, WatermarkSpec).idle_timeout_ms == 5000


def test_parts_of_collections_that_must_not_be_null_are_found():
    inner = RowType([RowField("x", INT.not_null()), RowField("y", INT)])
    cases = {
        inner: [("x",)],
        ArrayType(inner.not_null()): [("*",), ("*", "x")],
        MultisetType(INT.not_null()): [("*", "key")],
        MapType(TEXT, INT.not_null()): [("*", "value")],
        MapType(TEXT.not_null(), ArrayType(INT.not_null())): [("*", "key"), ("*", "value", "*")],
    }
    for given, paths in cases.items():
        assert list(not_null_paths(given, collections=True)) == paths, given
        expected = paths if given is inner else []
        assert list(not_null_paths(given, collections=False)) == expected, given
