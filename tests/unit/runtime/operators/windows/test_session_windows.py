"""Session windows against a brute-force model."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.graph.operator_specs import WindowSpec
from penstock.runtime.operators.windows.window import create_window_operator
from penstock.testing import OperatorHarness
from penstock.windowing import DynamicEventTimeSessionWindows, EventTimeSessionWindows
from tests.builders.window_functions import Show, Sum, SumAndCount, by_field_0

MAX = 2**63 - 1
GAP = 5

elements = st.lists(
    st.tuples(st.sampled_from("ab"), st.integers(1, 9), st.integers(0, 60)), max_size=30
)


def sessions_of(records, gap_of):
    """All sessions as (key, start, end, sum): sort by time, cut where the gap is larger."""
    sessions = []
    for key in {key for key, _, _ in records}:
        mine = sorted((t, t + gap_of(n), n) for k, n, t in records if k == key)
        current = None
        for start, end, n in mine:
            if current is not None and start <= current[1]:
                current = (current[0], max(current[1], end), current[2] + n)
            else:
                if current is not None:
                    sessions.append((key, *current))
                current = (start, end, n)
        sessions.append((key, *current))
    return Counter(sessions)


@pytest.mark.parametrize("dynamic", [False, True], ids=["one gap", "gap per element"])
@settings(deadline=None)
@given(elements, st.lists(st.integers(0, 30), max_size=3))
def test_sessions_are_the_groups_of_elements_within_the_gap(dynamic, records, snapshots_at):
    def gap_of(n):
        return n if dynamic else GAP

    class Function:
        def process(self, key, context, elements):
            window = context.window()
            yield key, window.start, window.end, sum(n for _, n in elements)

    assigner = (
        DynamicEventTimeSessionWindows(lambda value: value[1])
        if dynamic
        else EventTimeSessionWindows(GAP)
    )
    spec = WindowSpec(assigner, None, window_function=Function())
    harness = OperatorHarness(create_window_operator(spec), key_selector=by_field_0)
    for number, (key, n, timestamp) in enumerate(records):
        if number in snapshots_at:
            harness = OperatorHarness(
                create_window_operator(spec),
                key_selector=by_field_0,
                snapshots=[harness.snapshot()],
            )
        harness.process_element((key, n), timestamp)
    harness.process_watermark(MAX)
    assert Counter(harness.values()) == sessions_of(records, gap_of)
    assert harness.state_entries() == {}


class Model:
    """Sessions with watermarks, as plain lists of (key, start, end, elements)."""

    def __init__(self):
        self.open = []
        self.watermark = -(2**63)
        self.late = []

    def add(self, key, n, timestamp):
        start, end, members = timestamp, timestamp + GAP, [n]
        rest = []
        for session in self.open:
            k, s, e, numbers = session
            if k == key and s <= timestamp + GAP and e >= timestamp:
                start, end, members = min(start, s), max(end, e), members + numbers
            else:
                rest.append(session)
        if end - 1 <= self.watermark:
            self.late.append((key, n))
        else:
            self.open = [*rest, (key, start, end, members)]

    def advance(self, watermark):
        self.watermark = watermark
        due = [session for session in self.open if session[2] - 1 <= watermark]
        self.open = [session for session in self.open if session[2] - 1 > watermark]
        return Counter((k, s, e, tuple(sorted(numbers))) for k, s, e, numbers in due)


@settings(deadline=None)
@given(
    st.lists(
        st.one_of(
            st.tuples(st.sampled_from("ab"), st.integers(1, 9), st.integers(0, 40)),
            st.integers(0, 45),
        ),
        max_size=40,
    )
)
def test_sessions_with_watermarks_and_late_elements(steps):
    spec = WindowSpec(EventTimeSessionWindows(GAP), None, window_function=Show(), late_tag="late")
    harness = OperatorHarness(create_window_operator(spec), key_selector=by_field_0)
    model = Model()
    for step in steps:
        if isinstance(step, tuple):
            key, n, timestamp = step
            harness.process_element((key, n), timestamp)
            model.add(key, n, timestamp)
            continue
        watermark = max(step, model.watermark)
        harness.process_watermark(watermark)
        fired = Counter(
            (key, window.start, window.end, tuple(sorted(n for _, n in members)))
            for key, window, members in harness.values()
        )
        assert fired == model.advance(watermark)
        late = [value for value, _ in harness.side_output("late")]
        assert late == model.late
        model.late = []
        harness.clear()


@pytest.mark.parametrize(
    ("functions", "result_of"),
    [
        pytest.param(
            {"reduce_function": Sum()}, lambda key, total, count: (key, total), id="reduce"
        ),
        pytest.param(
            {"aggregate_function": SumAndCount()},
            lambda key, total, count: (total, count),
            id="aggregate",
        ),
    ],
)
@settings(deadline=None)
@given(records=elements)
def test_reduced_sessions_equal_sessions_of_elements(functions, result_of, records):
    def run(**functions):
        spec = WindowSpec(EventTimeSessionWindows(GAP), None, **functions)
        harness = OperatorHarness(create_window_operator(spec), key_selector=by_field_0)
        harness.process_elements([((key, n), timestamp) for key, n, timestamp in records])
        harness.process_watermark(MAX)
        return harness.output()

    expected = [
        (result_of(key, sum(n for _, n in members), len(members)), timestamp)
        for (key, _, members), timestamp in run(window_function=Show())
    ]
    assert Counter(run(**functions)) == Counter(expected)
