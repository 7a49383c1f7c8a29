"""What subtasks of running jobs tell about their keys, splits and states when they are asked."""

from __future__ import annotations

import pytest

from penstock.common import Duration, Time, WatermarkStrategy
from penstock.connectors.base.source import SourceBatch, SourceReader, SourceSplit
from penstock.datastream import KeyedProcessFunction
from penstock.datastream.state import StateTtlConfig, ValueStateDescriptor
from penstock.errors import ArgumentError, JobRequestError
from penstock.graph.task_id import TaskId
from penstock.runtime.inspection.requests import LONGEST_S, KeySamples, SplitTime, TaskDetails
from penstock.testing import MiniCluster
from tests.builders.endless import EndlessSource
from tests.builders.environments import configured
from tests.builders.waiting import wait_until

TIMEOUT_S = 60
HOUR_MS = 3_600_000


class Clicks(EndlessSource):
    """Splits whose time goes at different paces; of ten records, six are of one user."""

    def splits(self):
        return [SourceSplit(name, start=0) for name in ("fast", "slow")]

    def create_reader(self, context=None):
        return _Reader()


class _Reader(SourceReader):
    def read(self, split, position, limits):
        decisions = 10 if split.split_id == "fast" else 1
        while True:
            numbers = range(position, position + 100)
            users = ["heavy" if n % 10 < 6 else f"user {n % 1000}" for n in numbers]
            position += 100
            yield SourceBatch(
                [(user, HOUR_MS + n * decisions) for user, n in zip(users, numbers, strict=True)],
                position,
            )


class Remember(KeyedProcessFunction):
    """Has one state that expires and one that does not."""

    def open(self, runtime_context):
        self.last = runtime_context.get_state(ValueStateDescriptor("last"))
        expiring = ValueStateDescriptor("recent")
        expiring.enable_time_to_live(StateTtlConfig.new_builder(Time.hours(1)).build())
        self.recent = runtime_context.get_state(expiring)

    def process_element(self, value, ctx):
        self.last.update(value)
        self.recent.update(value)
        return ()


@pytest.fixture
def controller():
    """A job that never ends."""
    with MiniCluster("pipelined"):
        env = configured({}, 2)
        times = WatermarkStrategy.for_bounded_out_of_orderness(
            Duration.of_millis(0)
        ).with_timestamp_assigner(lambda value, _: value[1])
        clicks = env.from_source(Clicks(), times, "clicks").uid("clicks")
        clicks.key_by(lambda value: value[0]).process(Remember()).uid("remember").print()
        client = env.execute_async("clicks")
    controller = client._controller
    wait_until(lambda: len(controller.slots()) == 2)
    yield controller
    client.cancel().result(TIMEOUT_S)


def vertex(controller, uid):
    vertices = controller.master.job.plan.vertices
    return next(v for v in vertices if any(op.uid == uid for op in v.operators))


def test_the_most_frequent_keys_of_a_subtasks_input_are_reported(controller):
    keyed = vertex(controller, "remember")
    tops = {}
    for subtask in range(2):
        task = TaskId(keyed.id, subtask)
        found = controller.inspect(task, KeySamples(task, watch_s=LONGEST_S, keys=2000)).result(
            TIMEOUT_S
        )
        assert found.sampled >= 2000
        assert found.distinct > 1
        tops[subtask] = found.top[0][0], found.top[0][1] / found.sampled
    heavy = [share for key, share in tops.values() if key == "'heavy'"]
    assert len(heavy) == 1  # it belongs to one subtask
    assert 0.65 < heavy[0] < 0.85  # 6 of 8 that this one gets


def test_nothing_is_counted_when_the_question_is_answered(controller):
    task = TaskId(vertex(controller, "remember").id, 0)
    controller.inspect(task, KeySamples(task, watch_s=LONGEST_S, keys=10)).result(TIMEOUT_S)
    assert (
        controller.inspect(task, KeySamples(task, watch_s=LONGEST_S, keys=10))
        .result(TIMEOUT_S)
        .sampled
        >= 10
    )
    clicks = TaskId(vertex(controller, "clicks").id, 0)
    none = controller.inspect(clicks, KeySamples(clicks, watch_s=0.05)).result(TIMEOUT_S)
    assert none.sampled == 0  # its input has no keys


def test_splits_tell_how_far_they_have_come_and_states_whether_they_expire(controller):
    clicks, keyed = vertex(controller, "clicks"), vertex(controller, "remember")
    splits: dict[str, SplitTime] = {}
    for subtask in range(2):
        task = TaskId(clicks.id, subtask)
        detail = controller.inspect(task, TaskDetails(task)).result(TIMEOUT_S)
        splits |= {each.split: each for each in detail.splits}
        assert detail.states == ()
    assert set(splits) == {"fast", "slow"}
    assert all(each.counts and not each.idle for each in splits.values())
    task = TaskId(keyed.id, 0)
    states = controller.inspect(task, TaskDetails(task)).result(TIMEOUT_S).states
    assert {(each.name, each.kind, each.expires) for each in states} == {
        ("last", "value", False),
        ("recent", "value", True),
    }
    assert {each.operator for each in states} == {keyed.operators[0].operator_id}


def test_only_the_slot_of_a_task_knows_it(controller):
    keyed = vertex(controller, "remember").id
    with pytest.raises(JobRequestError, match="does not run in this slot"):
        controller.inspect(TaskId(keyed, 0), TaskDetails(TaskId("other", 1))).result(TIMEOUT_S)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"watch_s": 0}, "watch_s must be between 0 and 60"),
        ({"watch_s": 100}, "watch_s must be between 0 and 60"),
        ({"keys": 0}, "invalid number of keys"),
        ({"top": 0}, "invalid number of keys"),
    ],
)
def test_requests_for_keys_are_bounded(wrong, message):
    with pytest.raises(ArgumentError, match=message):
        KeySamples(TaskId("v", 0), **wrong)
