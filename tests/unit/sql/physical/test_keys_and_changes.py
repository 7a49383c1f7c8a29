"""Traits of plans: upsert keys, and which operators need -U rows."""

from __future__ import annotations

import datetime as dt
from collections import Counter

import pytest

from penstock.graph.operator_specs.columnar.aggregates import GroupAggregateSpec
from penstock.graph.operator_specs.columnar.changes import (
    ChangelogNormalizeSpec,
    DropKindsSpec,
    NotNullSpec,
    UpsertMaterializeSpec,
)
from penstock.graph.operator_specs.columnar.joins import JoinSpec
from penstock.graph.operator_specs.columnar.ranks import RankSpec
from penstock.runtime.records import MAX_WATERMARK
from penstock.sql.errors import ValidationError
from penstock.sql.logical.nodes import Field
from penstock.sql.physical.nodes import (
    INSERTS,
    ChangelogTraits,
    PhysicalNode,
    PhysicalOperator,
    PhysicalTraits,
)
from penstock.sql.physical.operators.exchange import exchange
from penstock.sql.physical.planner import PhysicalPlan
from tests.builders.plan_runs import PlanRun, valid_table
from tests.unit.sql.logical.plans import Catalog
from tests.unit.sql.logical.plans import plan as logical_plan
from tests.unit.sql.physical.plans import (
    INT,
    MODES,
    Toys,
    kinds,
    planner,
    shown,
)
from tests.unit.sql.sql_plans import (
    catalog,
    keys_of,
    planned,
    spec_of,
)

JOINED = "SELECT o.id, o.person, p.id AS pid FROM orders o {} JOIN people p ON o.{} = p.id"
# By the kind of join and the column of orders: the keys over tables that only grow, and over tables that change.
JOIN_KEYS = {
    ("INNER", "id"): ({("id",), ("pid",)}, {("id",), ("pid",)}),
    ("INNER", "person"): ({("id",)}, {("id", "person")}),
    ("LEFT", "id"): ({("id",)}, {("id",)}),
    ("LEFT", "person"): ({("id",)}, {("id", "person")}),
    ("RIGHT", "id"): ({("pid",)}, {("pid",)}),
    ("RIGHT", "person"): ({("id", "pid")}, {("id", "person", "pid")}),
    ("FULL", "id"): ({("id", "pid")}, {("id", "pid")}),
    ("FULL", "person"): ({("id", "pid")}, {("id", "person", "pid")}),
}


@pytest.mark.parametrize(("kind", "column"), JOIN_KEYS)
def test_a_join_is_known_by_the_keys_of_the_sides_that_it_keeps_once(
    kind: str, column: str
) -> None:
    query = JOINED.format(kind, column)
    assert (
        tuple(keys_of(planned(query, mode)) for mode in ("append", "all"))
        == JOIN_KEYS[kind, column]
    )


KEYS = {
    "SELECT id AS a, id AS b, person FROM orders": {("a",), ("b",)},
    "SELECT id + 1 AS a, person FROM orders": set(),
    "SELECT id, person FROM orders UNION ALL SELECT id, age FROM people": set(),
    "SELECT id, x FROM orders CROSS JOIN UNNEST(ARRAY[person, price]) AS t(x)": set(),
    "SELECT id, person, COUNT(*) AS n FROM orders GROUP BY GROUPING SETS ((id), (person))": set(),
    "SELECT person, price, COUNT(*) AS n FROM orders GROUP BY person, price": {("person", "price")},
    "SELECT price, n FROM (SELECT person, price, COUNT(*) AS n FROM orders GROUP BY person, price)": set(),
    "SELECT COUNT(*) AS n FROM orders": {()},
    "SELECT id, person FROM orders WHERE person IN (SELECT id FROM people)": {("id", "person")},
    "SELECT id, person FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY person ORDER BY price) AS rn FROM orders) WHERE rn = 1": {("person",)},
    "SELECT id, person FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY person ORDER BY price) AS rn FROM orders) WHERE rn < 3": {("id", "person")},
    "SELECT id, person, rn FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY person ORDER BY price) AS rn FROM orders) WHERE rn < 3": {("person", "rn")},
    "SELECT id, person FROM (SELECT *, RANK() OVER (PARTITION BY person ORDER BY price) AS rn FROM orders) WHERE rn = 1": {("id", "person")},
    "SELECT id, person, rn FROM (SELECT *, RANK() OVER (PARTITION BY person ORDER BY price) AS rn FROM orders) WHERE rn < 3": {("id", "person")},
    "SELECT window_start, person, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE visits, DESCRIPTOR(seen), INTERVAL '1' MINUTE)) GROUP BY window_start, window_end, person": {("window_start", "person")},
}  # fmt: skip


def test_keys_follow_rows_through_projections_groups_and_ranks() -> None:
    found = {query: keys_of(planned(query)) for query in KEYS}
    assert found == KEYS


def node(changes: ChangelogTraits, *keys: tuple[int, ...]) -> PhysicalNode:
    return PhysicalNode(
        schema=tuple(Field(name, INT) for name in "abc"),
        traits=PhysicalTraits(changes, frozenset(map(frozenset, keys))),
    )


def test_changes_that_are_sent_by_a_column_outside_of_their_key_lose_the_key() -> None:
    """Two changes of one key may go to two subtasks then, and come from there in any order."""
    # A row that is deleted may come back with other values.
    for changes in (ChangelogTraits(updates=True), ChangelogTraits(deletes=True)):
        changing = node(changes, (0,), (1, 2), (0, 1))
        found = {
            columns: sorted(map(sorted, exchange(changing, columns).traits.keys))
            for columns in ((), (0,), (1,), (1, 2), (0, 2))
        }
        assert found == {
            (): [[0], [0, 1], [1, 2]],
            (0,): [[0], [0, 1]],
            (1,): [[0, 1], [1, 2]],
            (1, 2): [[1, 2]],
            (0, 2): [],
        }
    grows = node(INSERTS, (0,))
    assert exchange(grows, (2,)).traits.keys == grows.traits.keys


def modes_of(plan: PhysicalPlan) -> dict[str, str]:
    """The kinds of changes that nodes give, by the kind of node; of several, the first from the end."""
    found: dict[str, str] = {}
    lines = shown(plan, changes=True).splitlines()
    for kind, line in zip(kinds(plan), lines, strict=True):
        found.setdefault(kind, line[line.index("changelogMode=[") + 15 : line.rindex("]")])
    return found


COUNTS = "(SELECT person, COUNT(*) AS n FROM orders GROUP BY person)"
# What a query reads of an aggregate, and the kinds of changes that the aggregate gives.
NEEDS = {
    f"SELECT person, n FROM {COUNTS}": "I,UA,D",
    f"SELECT person, n FROM {COUNTS} WHERE person > 1": "I,UA,D",
    f"SELECT person, n FROM {COUNTS} WHERE n > 1": "I,UB,UA,D",
    f"SELECT person, n FROM {COUNTS} WHERE person + n > 1": "I,UB,UA,D",
    # Columns are those below the filter, wherever the projection has them.
    f"SELECT n, person FROM {COUNTS} WHERE n > 1": "I,UB,UA,D",
    f"SELECT n, person FROM {COUNTS} WHERE person > 1": "I,UA,D",
    f"SELECT n FROM {COUNTS} WHERE person > 1": "I,UA,D",
    f"SELECT n, COUNT(*) FROM {COUNTS} GROUP BY n": "I,UB,UA,D",
    f"SELECT person, n FROM {COUNTS} ORDER BY n DESC LIMIT 2": "I,UB,UA,D",
    f"SELECT c.n, p.name FROM {COUNTS} c JOIN people p ON c.person = p.id": "I,UB,UA,D",
    f"SELECT person + 1, n FROM {COUNTS} UNION ALL SELECT n, COUNT(*) FROM {COUNTS} GROUP BY n": "I,UB,UA,D",
    f"SELECT n, COUNT(*) FROM {COUNTS} GROUP BY n UNION ALL SELECT person + 1, n FROM {COUNTS}": "I,UB,UA,D",
}


def test_an_aggregate_gives_former_rows_only_to_those_who_need_them() -> None:
    found = {}
    for query in NEEDS:
        lines = shown(planned(query, update_before=False), changes=True).splitlines()
        last = [line for line in lines if "GroupAggregate(groupBy=[person]" in line][-1]
        found[query] = last.split("changelogMode=[")[1].split("]")[0]
    assert found == NEEDS


def test_a_filter_that_may_drop_an_update_makes_deletes_of_its_former_row() -> None:
    lossy = planned(f"SELECT person, n FROM {COUNTS} WHERE n > 1", update_before=False)
    assert modes_of(lossy)["DropUpdateBefore"] == "I,UA,D"
    assert str(lossy.result.traits.changes) == "[I,UA,D]"
    grows = "SELECT page, n FROM (SELECT page, COUNT(*) AS n FROM visits GROUP BY page)"
    assert str(planned(grows, update_before=False).result.traits.changes) == "[I,UA]"
    few = f"{grows} WHERE n < 3"
    assert str(planned(few, update_before=False).result.traits.changes) == "[I,UA,D]"
    assert spec_of(planned(few, update_before=False), DropKindsSpec).keys == (0,)
    computed = planned("SELECT page, n + 1 FROM (" + grows + ")", update_before=False)
    assert str(computed.result.traits.changes) == "[I,UA]"
    for query in (f"{few} UNION ALL {grows}", f"{grows} UNION ALL {few}"):
        both = planned(query, update_before=False)
        assert str(both.result.traits.changes) == "[I,UA,D]"


def test_a_table_without_deletes_refuses_a_filter_that_may_drop_updates(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from penstock.common import RowKind
    from penstock.sql.connector.changelog_mode import ChangelogMode

    monkeypatch.setitem(MODES, "keeps", ChangelogMode([RowKind.INSERT, RowKind.UPDATE_AFTER]))
    tables = Catalog(
        "CREATE TABLE visits (page STRING) WITH ('connector' = 'toy')",
        "CREATE TABLE out (page STRING, n BIGINT, PRIMARY KEY (page) NOT ENFORCED) WITH ('connector' = 'toy', 'mode' = 'keeps')",
    )
    counts = "INSERT INTO out SELECT page, COUNT(*) AS n FROM visits GROUP BY page"
    assert planner(Toys()).plan([logical_plan(counts, tables)])
    with pytest.raises(ValidationError, match="doesn't support consuming delete changes"):
        planner(Toys()).plan([logical_plan(f"{counts} HAVING COUNT(*) < 3", tables)])


CHANGES = {
    "SELECT id FROM visits WHERE person IN (SELECT id FROM people)": "[I,D]",
    # An update of the right side may be about another key: the partners of the former one lose it.
    "SELECT id FROM visits WHERE id IN (SELECT COUNT(*) FROM visits GROUP BY page)": "[I,D]",
    "SELECT id FROM visits v WHERE NOT EXISTS (SELECT 1 FROM (SELECT COUNT(*) AS n FROM visits GROUP BY page) w WHERE w.n = v.id)": "[I,D]",
    "SELECT v.id, w.id FROM visits v LEFT JOIN visits w ON v.id = w.person": "[I,UB,UA,D]",
    "SELECT v.id, w.id FROM visits v JOIN visits w ON v.id = w.person": "[I]",
    "SELECT id FROM visits UNION ALL SELECT id FROM people": "[I,UB,UA,D]",
    "SELECT id FROM visits v WHERE NOT EXISTS (SELECT 1 FROM visits w WHERE w.person = v.id)": "[I,D]",
    "SELECT page, COUNT(*) AS n FROM visits GROUP BY page": "[I,UB,UA]",
    "SELECT v.id, g.n FROM visits v JOIN (SELECT page, COUNT(*) AS n FROM visits GROUP BY page) g ON v.page = g.page": "[I,UB,UA]",
    "SELECT v.id, g.n FROM (SELECT page, COUNT(*) AS n FROM visits GROUP BY page) g JOIN visits v ON v.page = g.page": "[I,UB,UA]",
    "SELECT DISTINCT page FROM visits": "[I]",
    "SELECT DISTINCT name FROM people": "[I,D]",
    "SELECT id, page FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY page ORDER BY seen) AS rn FROM visits) WHERE rn = 1": "[I,UB,UA]",
    # A column is a time attribute if it is one in all parts: else a row may come before all others at any moment.
    "SELECT COUNT(*) OVER (ORDER BY t) FROM (SELECT seen AS t FROM visits UNION ALL SELECT seen FROM visits WHERE id > 1)": "[I]",
    "SELECT COUNT(*) OVER (ORDER BY t) FROM (SELECT seen AS t FROM visits UNION ALL SELECT seen + INTERVAL '1' DAY FROM visits)": "[I,UB,UA]",
    "SELECT COUNT(*) OVER (ORDER BY t) FROM (SELECT seen + INTERVAL '1' DAY AS t FROM visits UNION ALL SELECT seen FROM visits)": "[I,UB,UA]",
}


def test_a_result_says_which_changes_it_has() -> None:
    found = {query: str(planned(query).result.traits.changes) for query in CHANGES}
    assert found == CHANGES


def test_columns_that_an_outer_join_may_fill_with_nulls_are_checked_before_a_not_null_column() -> (
    None
):
    strict = Catalog(
        "CREATE TABLE l (x INT NOT NULL) WITH ('connector' = 'toy')",
        "CREATE TABLE r (y INT NOT NULL) WITH ('connector' = 'toy')",
        "CREATE TABLE strict (x INT NOT NULL, y INT NOT NULL) WITH ('connector' = 'toy', 'mode' = 'all')",
    )
    found = {}
    for kind in ("INNER", "LEFT", "RIGHT", "FULL"):
        query = f"INSERT INTO strict SELECT x, y FROM l {kind} JOIN r ON x = y"
        names = [
            node.spec.names
            for node in planned(query, tables=strict).nodes
            if isinstance(node, PhysicalOperator) and isinstance(node.spec, NotNullSpec)
        ]
        found[kind] = names
    assert found == {"INNER": [], "LEFT": [("y",)], "RIGHT": [("x",)], "FULL": [("x", "y")]}


def test_hints_of_joins_are_about_the_side_that_they_name() -> None:
    join = "o.id FROM orders o JOIN people p ON o.person = p.id"
    found = {}
    for hint in (
        "'o' = '1 h', 'p' = '2 h'",
        "'p' = '2 h', 'o' = '1 h'",
        "'o' = '1 h'",
        "'p' = '2 h'",
        "'O' = '0 s', 'db.p' = '0 s'",
    ):
        plan = planned(f"SELECT /*+ STATE_TTL({hint}) */ {join}", table_exec_state_ttl="5 s")
        spec = spec_of(plan, JoinSpec)
        found[hint] = (spec.left_ttl_ms // 1000, spec.right_ttl_ms // 1000)
    assert list(found.values()) == [(3600, 7200), (3600, 7200), (3600, 5), (5, 7200), (0, 0)]


@pytest.mark.parametrize(
    ("hint", "source", "seconds"),
    [
        ("'orders' = '1 h'", "orders", 3600),
        ("'orders' = '0 s'", "orders", 0),
        ("'o' = '1 h', 'p' = '2 h'", "orders o JOIN people p ON o.person = p.id", 5),
    ],
)
def test_hints_of_groups_are_about_their_only_table(hint: str, source: str, seconds: int) -> None:
    query = f"SELECT /*+ STATE_TTL({hint}) */ person, COUNT(*) FROM {source} GROUP BY person"
    plan = planned(query, table_exec_state_ttl="5 s")
    assert spec_of(plan, GroupAggregateSpec).ttl_ms == seconds * 1000


def test_each_side_of_a_join_forgets_its_rows_when_its_own_time_is_over() -> None:
    hint = "STATE_TTL('o' = '10 s', 'p' = '100 s')"
    run = PlanRun(
        planned(f"SELECT /*+ {hint} */ o.id, p.id FROM orders o JOIN people p ON o.person = p.id")
    )
    run.feed("orders", ("+I", (1, 7, 0)))
    run.feed("people", ("+I", (8, "ann", 1)))
    run.drain()
    run.clock.advance(50_000)
    run.feed("people", ("+I", (7, "bob", 1)))  # its order is forgotten
    run.feed("orders", ("+I", (2, 8, 0)))  # its person is not
    run.drain()
    assert run.out == [("+I", (2, 8))]


def test_hints_of_aggregates_are_kept_in_both_levels_of_a_split_one() -> None:
    query = "SELECT /*+ STATE_TTL('orders' = '1 h') */ person, COUNT(DISTINCT price) FROM orders GROUP BY person"
    assert spec_of(planned(query), GroupAggregateSpec).ttl_ms == 3_600_000
    split = planned(query, table_optimizer_distinct__agg_split_enabled="true")
    specs = [
        each.spec
        for each in split.nodes
        if isinstance(getattr(each, "spec", None), GroupAggregateSpec)
    ]
    assert [spec.ttl_ms for spec in specs] == [3_600_000, 3_600_000]


def test_rows_that_change_are_matched_by_the_key_that_the_join_contains() -> None:
    """Of two keys, that of the join says that a row has one partner at most."""
    query = "SELECT a.id, b.id, b.n FROM orders a JOIN (SELECT o.id, p.id AS pid, p.age AS n FROM orders o JOIN people p ON o.id = p.id) b ON a.price = b.pid"
    joins = [
        each.spec
        for each in planned(query).nodes
        if isinstance(getattr(each, "spec", None), JoinSpec)
    ]
    assert joins[-1].right_keys == joins[-1].right_unique


def test_a_changing_table_is_read_with_its_key_and_ranked_with_it() -> None:
    plan = planned("SELECT price FROM orders ORDER BY price LIMIT 2", "upsert")
    assert spec_of(plan, ChangelogNormalizeSpec).keys == (1,)
    assert spec_of(plan, RankSpec).strategy == "RETRACT"


def test_a_sink_keeps_rows_by_the_shortest_key_of_the_query() -> None:
    plan = planned("INSERT INTO sink SELECT person, id, price FROM orders")
    assert spec_of(plan, UpsertMaterializeSpec).upsert == (1,)
    by_part = "INSERT INTO sink SELECT person, price, CAST(COUNT(*) AS INT) FROM orders GROUP BY person, price"
    assert spec_of(planned(by_part), UpsertMaterializeSpec).upsert == (0, 1)


def test_the_first_row_of_a_key_by_time_is_ranked_where_rows_may_go() -> None:
    """A deduplication keeps one row: if it goes, the one before it is not known any more."""
    columns = "id INT NOT NULL, k INT, at TIMESTAMP(3), WATERMARK FOR at AS at"
    found = {}
    for mode in ("append", "all"):
        tables = Catalog(
            f"CREATE TABLE t ({columns}, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector' = 'toy', 'mode' = '{mode}')"
        )
        query = "SELECT id FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY at) AS rn FROM t) WHERE rn = 1"
        plan = planner(Toys()).plan([logical_plan(query, tables)])
        found[mode] = {"Rank", "Deduplicate"} & set(kinds(plan))
    assert found == {"append": {"Deduplicate"}, "all": {"Rank"}}


@pytest.mark.parametrize("condition", ["", "WHERE price < 10"])
def test_without_materialisation_former_rows_are_deletes_by_the_primary_key(condition: str) -> None:
    query = f"INSERT INTO sink SELECT person, id, price FROM orders {condition}"
    run = PlanRun(planned(query, table_exec_sink_upsert__materialize="NONE"))
    run.feed("orders", ("+I", (1, 7, 0)))
    run.feed("orders", ("-U", (1, 7, 0)), ("+U", (1, 8, 0)))
    run.feed("orders", ("-U", (1, 8, 0)), ("+U", (1, 8, 9)))
    run.drain()
    assert run.out == [
        ("+I", (7, 1, 0)),
        ("-D", (7, 1, 0)),
        ("+U", (8, 1, 0)),
        ("+U", (8, 1, 9)),
    ]


def test_changes_that_a_source_tells_twice_count_once_if_the_options_say_so() -> None:
    query = "SELECT id, person FROM orders"
    once = [("+I", 7), ("-U", 7), ("+U", 8), ("-D", 8)]
    for option, times in (("true", 1), ("false", 2)):
        run = PlanRun(planned(query, table_exec_source_cdc__events__duplicate=option))
        for part in (once[:1], once[:1], once[1:3], once[1:3], once[3:], once[3:]):
            run.feed("orders", *((kind, (1, person, 0)) for kind, person in part))
            run.drain()
        found = [(kind, row[1]) for kind, row in run.out]
        assert Counter(found) == Counter(once * times)


def test_values_over_rows_that_may_go_are_those_of_the_rows_that_are_left() -> None:
    columns = "id INT NOT NULL, at TIMESTAMP(3), WATERMARK FOR at AS at"
    tables = Catalog(
        f"CREATE TABLE t ({columns}, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector' = 'toy', 'mode' = 'all')"
    )
    run = PlanRun(planned("SELECT id, COUNT(*) OVER (ORDER BY at) FROM t", tables=tables))
    first, second, third = ((id, dt.datetime(2020, 1, 1, id)) for id in (1, 2, 3))
    run.feed("t", ("+I", first), ("+I", second), ("+I", third))
    run.feed("t", ("-D", second))
    run.drain()
    run.advance("t", MAX_WATERMARK)
    run.drain()
    assert sorted(valid_table(run.out)) == [(1, 1), (3, 2)]


WINDOW = "TABLE({}(TABLE visits{}, DESCRIPTOR(seen), {}))"
CUMULATE = WINDOW.format("CUMULATE", "", "INTERVAL '1' MINUTE, INTERVAL '5' MINUTE")
HOP = WINDOW.format("HOP", "", "INTERVAL '1' MINUTE, INTERVAL '5' MINUTE")
SESSION = WINDOW.format("SESSION", " PARTITION BY person", "INTERVAL '1' MINUTE")
SESSION_OF_ALL = WINDOW.format("SESSION", "", "INTERVAL '1' MINUTE")
BOUNDS = ("window_start", "window_end")


@pytest.mark.parametrize(
    ("window", "by", "expected"),
    [
        (HOP, ("person",), {("window_start", "person"), ("window_end", "person")}),
        (CUMULATE, ("person",), {("window_end", "person")}),
        (CUMULATE, (), {("window_end",)}),
        (SESSION, ("person",), {("window_start", "person"), ("window_end", "person")}),
        (SESSION, (), {BOUNDS}),
        (SESSION, ("page",), {(*BOUNDS, "page")}),
        (SESSION_OF_ALL, (), {("window_start",), ("window_end",)}),
    ],
)
def test_groups_of_windows_are_known_by_a_bound_that_no_other_window_has(
    window: str, by: tuple[str, ...], expected: set[tuple[str, ...]]
) -> None:
    """Windows of CUMULATE share their start, and sessions of different keys may share both."""
    columns = ", ".join((*BOUNDS, *by))
    query = f"SELECT {columns}, COUNT(*) AS n FROM {window} GROUP BY {columns}"
    assert keys_of(planned(query)) == expected
    ranked = f"SELECT {columns}, rn FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY {columns} ORDER BY id) AS rn FROM {window}) WHERE rn = 1"
    if window in {HOP, CUMULATE}:
        assert keys_of(planned(ranked)) == expected
        assert keys_of(planned(ranked.replace("rn = 1", "rn <= 2"))) == set()


def test_a_joined_row_that_is_updated_is_deleted_if_nothing_takes_its_place() -> None:
    """Groups that only grow are updated and never deleted; a condition on them leaves rows out again."""
    groups = "(SELECT person, COUNT(*) AS n FROM visits GROUP BY person)"
    query = f"SELECT v.id, g.n FROM visits v JOIN {groups} g ON v.person = g.person AND g.n < 2"
    run = PlanRun(planned(query, update_before=False))
    for number in (1, 2):
        run.feed("visits", ("+I", (number, 7, "home", None)))
        run.drain()
    assert {kind for kind, _ in run.out} == {"+I", "-D"}
    assert not valid_table(run.out)
    assert str(run.plan.result.traits.changes) == "[I,UA,D]"


def test_rows_of_a_limit_over_changes_may_change() -> None:
    for mode, expected in (("all", "[I,UB,UA,D]"), ("append", "[I]")):
        plan = planned("SELECT id FROM orders LIMIT 3", mode)
        assert str(plan.result.traits.changes) == expected


def test_a_primary_key_of_the_program_is_kept_as_that_of_a_table_is() -> None:
    query = logical_plan("SELECT person, id, price FROM orders", catalog("all"))
    for key, kept in (((0,), True), ((1,), False)):
        plan = planner(Toys()).plan([query], primary_key=key)
        assert ("SinkMaterializer" in kinds(plan)) == kept


@pytest.mark.parametrize(("strategy", "kept"), [("FORCE", True), ("AUTO", False), ("NONE", False)])
def test_rows_of_the_same_key_are_kept_if_the_options_say_so(strategy: str, kept: bool) -> None:
    query = "INSERT INTO sink SELECT id, person, price FROM orders"
    plan = planned(query, table_exec_sink_upsert__materialize=strategy)
    assert ("SinkMaterializer" in kinds(plan)) == kept


def test_what_waits_for_watermarks_needs_some_or_an_end() -> None:
    sink = (
        "CREATE TABLE waits (id INT) WITH ('connector' = 'toy', 'needs-watermarks' = 'the option')"
    )
    for source, refused in (
        ("'unbounded' = 'true')", True),
        ("'bounded' = 'true')", False),
        ("'unbounded' = 'true')|, at TIMESTAMP(3), WATERMARK FOR at AS at", False),
    ):
        options, _, more = source.partition("|")
        tables = Catalog(
            sink, f"CREATE TABLE t (id INT{more}) WITH ('connector' = 'toy', {options}"
        )
        query = logical_plan("INSERT INTO waits SELECT id FROM t", tables)
        if refused:
            with pytest.raises(ValidationError, match="the option needs watermarks"):
                planner(Toys()).plan([query])
        else:
            planner(Toys()).plan([query])


SESSION_GROUPS = {
    "windows in GROUP BY": "SELECT SESSION_START(seen, {0}) AS window_start, SESSION_END(seen, {0}) AS window_end, COUNT(*) AS n FROM visits GROUP BY person, SESSION(seen, {0})",
    "window tables": f"SELECT window_start, window_end, person, COUNT(*) AS n FROM {SESSION} GROUP BY window_start, window_end, person",
}


@pytest.mark.parametrize("name", SESSION_GROUPS)
def test_sessions_of_different_keys_may_begin_together(name: str) -> None:
    """Grouped once more without their key, two of them with the same start may have different ends."""
    groups = SESSION_GROUPS[name].format("INTERVAL '1' MINUTE")
    query = f"SELECT window_start, window_end, SUM(n) AS n FROM ({groups}) GROUP BY window_start, window_end"
    assert keys_of(planned(query)) == {BOUNDS}
