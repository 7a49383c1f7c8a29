"""The table organised by window behaves like any other table."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.runtime.state.hashmap.panes import HashMapPaneTable
from penstock.runtime.state.hashmap.table import HashMapTable

entries = st.tuples(st.sampled_from("abc"), st.integers(0, 2))
operations = st.lists(
    st.one_of(
        st.tuples(st.just("put"), entries, st.integers(0, 9)),
        st.tuples(st.just("remove"), entries, st.none()),
        st.tuples(st.just("pop"), st.integers(0, 2), st.none()),
        st.tuples(st.just("merge"), st.none(), st.none()),
    ),
    max_size=40,
)


@settings(deadline=None)
@given(operations)
def test_it_equals_a_flat_table_and_its_deltas_rebuild_it(operations):
    panes, flat = HashMapPaneTable(True), HashMapTable(True)
    rebuilt = HashMapPaneTable(True)
    for kind, argument, value in [*operations, ("merge", None, None)]:
        if kind == "put":
            panes.put(argument, value)
            flat.put(argument, value)
        elif kind == "remove":
            panes.remove(argument)
            flat.remove(argument)
        elif kind == "pop":
            popped = panes.pop_pane(argument)
            expected = {key: value for (key, space), value in flat.items() if space == argument}
            assert popped == expected
            for key in expected:
                flat.remove((key, argument))
        else:
            delta, expected = panes.merge(), flat.merge()
            assert delta.written == expected.written
            assert set(delta.removed) >= set(expected.removed)
            assert not set(delta.removed) & set(delta.written)
            rebuilt.apply(delta)
            assert dict(rebuilt.items()) == dict(panes.items())
        assert dict(panes.items()) == dict(flat.items())
        assert len(panes) == len(flat)
        for entry in [(key, space) for key in "abc" for space in range(3)]:
            assert panes.get(entry, "none") == flat.get(entry, "none")
        assert set(panes.namespaces()) == {space for _, space in dict(flat.items())} | {
            space for space, pane in panes.touched.items() if not pane
        }
    assert panes.full() == flat.full()
