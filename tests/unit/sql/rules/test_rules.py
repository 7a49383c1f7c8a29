"""What rules make of plans."""

from __future__ import annotations

import pytest

from penstock.graph.operator_specs.columnar.common import SortKey, WindowDefinition
from penstock.sql.expr.nodes import AggregateCall, Literal
from penstock.sql.logical.nodes import (
    Field,
    LogicalAggregate,
    LogicalFilter,
    LogicalJoin,
    LogicalProject,
    LogicalSetOperation,
    LogicalSink,
    LogicalSort,
    LogicalTableFunctionScan,
)
from tests.unit.sql.physical.plans import (
    BOOL,
    INT,
    LONG,
    TEXT,
    TIME,
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
    timed,
)

ALL = "apply_projection apply_filters apply_limit"
BIDS = table("bids", {"auction": INT, "bidder": INT, "price": INT, "at": TIME}, can=ALL)
USERS = table("users", {"id": INT, "name": TEXT}, can=ALL)


def only(node, *columns):
    return LogicalProject(
        schema=tuple(node.schema[at] for at in columns),
        input=node,
        expressions=tuple(ref(node, at) for at in columns),
    )


def where(node, condition):
    return LogicalFilter(schema=node.schema, input=node, condition=condition)


def joined(left, right, condition, kind="INNER"):
    schema = left.schema if kind in {"SEMI", "ANTI"} else (*left.schema, *right.schema)
    return LogicalJoin(schema=schema, left=left, right=right, kind=kind, condition=condition)


def right_ref(left, right, column):
    from penstock.sql.expr.nodes import InputRef

    return InputRef(right.schema[column].type, column + len(left.schema))


def test_a_source_reads_only_the_columns_that_are_needed():
    toys = Toys()
    bids = scan(BIDS)
    planner(toys).plan([only(where(bids, call("<", ref(bids, 2), number(1))), 1)])
    assert toys.made[0].names == ["bidder", "price"]


def test_a_source_gets_conditions_and_what_it_does_not_take_is_checked_behind_it():
    toys = Toys()
    bids = scan(BIDS)
    both = call("AND", call("=", ref(bids, 0), number(1)), call("<", ref(bids, 2), number(9)))
    plan = planner(toys).plan([only(where(bids, both), 1)])
    assert [str(each) for each in toys.made[0].filters] == ["=($0, 1)"]
    assert "where=[(price < 9)]" in shown(plan)
    assert "auction" not in shown(plan).replace("filter=[=($0, 1)]", "")


def test_a_source_learns_how_many_rows_are_needed():
    toys = Toys()
    bids = scan(BIDS)
    some = only(bids, 1)
    planner(toys).plan([LogicalSort(schema=some.schema, input=some, offset=2, limit=3)])
    assert toys.made[0].limit == 5


def test_a_source_gives_all_rows_if_the_first_ones_are_chosen_by_an_order():
    toys = Toys()
    bids = scan(BIDS)
    planner(toys).plan(
        [LogicalSort(schema=bids.schema, input=bids, order=(SortKey(2, False, False),), limit=3)]
    )
    assert toys.made[0].limit is None


@pytest.mark.parametrize(
    ("kind", "left", "right"),
    [
        ("INNER", True, True),
        ("LEFT", True, False),
        ("RIGHT", False, True),
        ("FULL", False, False),
        ("SEMI", True, False),
        ("ANTI", True, False),
    ],
)
def test_conditions_move_to_the_side_of_a_join_that_they_are_about(kind, left, right):
    bids, users = scan(BIDS), scan(USERS)
    both = joined(bids, users, call("=", ref(bids, 1), right_ref(bids, users, 0)), kind)
    condition = call("IS NULL", ref(bids, 2))
    if kind not in {"SEMI", "ANTI"}:
        condition = call("AND", condition, call("IS NULL", right_ref(bids, users, 1)))
    text = shown(where(both, condition))
    join = text.index("Join(")
    assert (text.find("(price IS NULL)") > join) == left
    assert (text.find("(name IS NULL)") > join) == right


def test_an_outer_join_whose_missing_rows_are_left_out_is_an_inner_join():
    bids, users = scan(BIDS), scan(USERS)
    both = joined(bids, users, call("=", ref(bids, 1), right_ref(bids, users, 0)), "LEFT")
    named = where(both, call("=", right_ref(bids, users, 1), number(1)))
    assert "InnerJoin" in shown(named)
    assert "LeftOuterJoin" in shown(where(both, call("IS NULL", right_ref(bids, users, 1))))


# By the kind of a join and the sides that conditions behind it are about: the join that is left.
LEFT_OVER = {
    ("LEFT", "l"): "LeftOuter",
    ("LEFT", "r"): "Inner",
    ("LEFT", "lr"): "Inner",
    ("RIGHT", "l"): "Inner",
    ("RIGHT", "r"): "RightOuter",
    ("RIGHT", "lr"): "Inner",
    ("FULL", "l"): "LeftOuter",
    ("FULL", "r"): "RightOuter",
    ("FULL", "lr"): "Inner",
}


@pytest.mark.parametrize(("kind", "sides"), LEFT_OVER)
def test_an_outer_join_keeps_the_rows_that_conditions_behind_it_can_meet(kind, sides):
    bids, users = scan(BIDS), scan(USERS)
    both = joined(bids, users, call("=", ref(bids, 1), right_ref(bids, users, 0)), kind)
    columns = {"l": ref(bids, 2), "r": right_ref(bids, users, 1)}
    for sign in ("=", "<>", "<", "LIKE"):
        found = both
        for side in sides:
            found = where(found, call(sign, columns[side], number(1)))
        assert f"joinType=[{LEFT_OVER[kind, sides]}Join]" in shown(found), sign


def test_a_condition_that_a_missing_row_may_meet_leaves_an_outer_join_as_it_is():
    left, right = scan(table("left", {"id": INT, "x": BOOL})), scan(table("right", {"y": BOOL}))
    either = call("OR", ref(left, 1), right_ref(left, right, 0))
    on = call("IS TRUE", right_ref(left, right, 0))
    for kind in ("LEFT", "RIGHT", "FULL"):
        plan = shown(where(joined(left, right, on, kind), either))
        assert f"joinType=[{kind.title()}OuterJoin]" in plan


def test_a_join_whose_condition_is_never_true_keeps_the_rows_that_need_no_partner():
    left, right = scan(table("left", {"x": INT})), scan(table("right", {"y": INT}))
    never = call("=", number(1), number(2))
    unknown = Literal(BOOL, None)
    for condition in (never, unknown):
        found = {kind: kinds(joined(left, right, condition, kind)) for kind in ("SEMI", "ANTI")}
        assert "TableSourceScan" not in found["SEMI"]
        assert found["ANTI"] == kinds(left)


def test_conditions_on_keys_move_below_an_aggregate_and_others_stay():
    bids = scan(BIDS)
    groups = LogicalAggregate(
        schema=(bids.schema[1], Field("n", LONG)), input=bids, keys=(1,), aggregates=(count(),)
    )
    both = call("AND", call("<", ref(groups, 0), number(1)), call("<", ref(groups, 1), number(2)))
    text = shown(where(groups, both))
    assert text.index("(n < 2)") < text.index("GroupAggregate") < text.index("(bidder < 1)")


def test_conditions_move_below_windows_unless_they_are_about_them():
    bids = timed(scan(BIDS), 3)
    schema = (*bids.schema, *(Field(f"w{n}", TIME) for n in range(3)))
    windows = LogicalTableFunctionScan(
        schema=schema, input=bids, window=WindowDefinition("TUMBLE", 1000, time=3)
    )
    both = call("AND", call("<", ref(windows, 2), number(1)), call("IS NULL", ref(windows, 4)))
    text = shown(where(windows, both))
    assert text.index("w0 IS NULL") < text.index("WindowTableFunction") < text.index("(price < 1)")


def test_a_table_that_two_branches_read_is_read_once():
    toys = Toys()
    bids = [scan(BIDS), scan(BIDS)]
    cheap, dear = (
        only(where(each, call(sign, ref(each, 2), number(5))), at)
        for each, sign, at in zip(bids, "<>", (0, 1), strict=True)
    )
    plan = planner(toys).plan(
        [LogicalSetOperation(schema=cheap.schema, parts=(cheap, dear), kind="UNION", all=True)]
    )
    assert len(toys.made) == 1
    assert toys.made[0].names == ["auction", "bidder", "price"]
    assert "Reused(reference_id=[1])" in shown(plan)


def test_a_table_that_is_read_with_other_options_is_read_again():
    first, second = (scan(table("bids", {"auction": INT}, start=each)) for each in ("1", "2"))
    for other, times in ((first, 1), (second, 2)):
        both = LogicalSetOperation(
            schema=first.schema, parts=(first, other), kind="UNION", all=True
        )
        assert kinds(both).count("TableSourceScan") == times


def test_a_table_that_two_inserts_of_a_job_read_is_read_once():
    toys = Toys()
    writes = []
    for name in ("one", "two"):
        bids = scan(BIDS)
        some = only(bids, 1)
        writes.append(
            LogicalSink(schema=some.schema, input=some, table=table(name, {"bidder": INT}))
        )
    plan = planner(toys).plan(writes)
    assert len(toys.made) == 1
    assert kinds(plan).count("Reused") == 1


def test_a_table_that_is_read_for_a_column_and_for_the_number_of_its_rows_has_columns_for_both():
    toys = Toys()
    names = only(scan(USERS), 1)
    anybody = joined(names, scan(USERS), call("=", number(1), number(1)), kind="SEMI")
    planner(toys).plan([anybody])
    assert [each.names for each in toys.made] == [["id", "name"]]


def test_parts_that_give_other_rows_each_time_are_not_shared():
    bids = scan(BIDS)

    def chance():
        return LogicalProject(
            schema=(Field("r", INT),), input=bids, expressions=(call("RAND", kind=INT),)
        )

    both = LogicalSetOperation(
        schema=chance().schema, parts=(chance(), chance()), kind="UNION", all=True
    )
    assert kinds(both).count("Calc") == 2


@pytest.mark.parametrize(
    ("kind", "every", "expected"),
    [
        ("UNION", True, ["Union"]),
        ("UNION", False, ["GroupAggregate", "Exchange", "Union"]),
        ("INTERSECT", False, ["GroupAggregate", "Exchange", "Join"]),
        ("EXCEPT", False, ["GroupAggregate", "Exchange", "Join"]),
        ("EXCEPT", True, ["Calc", "Correlate", "GroupAggregate", "Exchange", "Union"]),
    ],
)
def test_set_operations_are_made_of_nodes_that_run(kind, every, expected):
    one, other = only(scan(BIDS), 0), only(scan(USERS), 0)
    whole = LogicalSetOperation(schema=one.schema, parts=(one, other), kind=kind, all=every)
    assert kinds(whole)[: len(expected)] == expected


def test_grouping_sets_give_each_row_once_per_set():
    bids = scan(BIDS)
    calls = (count(), AggregateCall("GROUPING_ID", (ref(bids, 0), ref(bids, 1)), LONG))
    schema = (bids.schema[0], bids.schema[1], Field("n", LONG), Field("g", LONG))
    rollup = LogicalAggregate(
        schema=schema, input=bids, keys=(0, 1), aggregates=calls, sets=((0, 1), (0,), ())
    )
    text = shown(rollup)
    assert "Expand(projects=[{auction, bidder, 0}, {auction, null, 1}, {null, null, 2}])" in text
    assert "CASE(($e = 0), 0, ($e = 1), 1, 3) AS g" in text


def test_parts_with_a_processing_time_are_shared():
    bids = scan(BIDS)

    def now():
        return LogicalProject(
            schema=(Field("a", INT), Field("p", TIME, "proctime")),
            input=bids,
            expressions=(ref(bids, 0), call("PROCTIME", kind=TIME)),
        )

    both = LogicalSetOperation(schema=now().schema, parts=(now(), now()), kind="UNION", all=True)
    assert kinds(both).count("Calc") == 1


def test_sources_of_changes_leave_out_nothing_before_their_changes_are_understood():
    toys = Toys()
    changing = table("t", {"id": INT, "v": INT}, key=("id",), mode="upsert", can=ALL)
    rows = scan(changing)
    some = where(rows, call("=", ref(rows, 1), number(1)))
    plan = planner(toys).plan([LogicalSort(schema=some.schema, input=some, limit=3)])
    planner(toys).plan([LogicalSort(schema=rows.schema, input=rows, limit=3)])
    assert [(each.filters, each.limit) for each in toys.made] == [([], None), ([], None)]
    text = shown(plan)
    assert text.index("where=[(v = 1)]") < text.index("ChangelogNormalize")


def test_a_condition_may_have_very_many_parts():
    bids = scan(BIDS)
    parts = [call("<>", ref(bids, 2), number(each)) for each in range(3000)]
    assert "(price <> 2999)" in shown(where(bids, call("AND", *parts)))
