"""Jobs that are resumed from a checkpoint with another parallelism, or another chain."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.common import Time
from penstock.datastream import (
    CheckpointedFunction,
    KeyedProcessFunction,
    MapFunction,
)
from penstock.datastream.state import ListStateDescriptor, ValueStateDescriptor
from penstock.datastream.window import TumblingEventTimeWindows
from penstock.errors import JobExecutionError
from tests.builders.environments import configured
from tests.builders.scripted import LOG, MONOTONOUS, Script, _empty_log, collect, take  # noqa: F401
from tests.builders.two_input_functions import RULES, Price, Scaled, SharedSum, key_of

pytestmark = pytest.mark.usefixtures("cluster")

POISON = "poison"
JOB_ID = "0123456789abcdef0123456789abcdef"


class Note:
    """A sink that writes to the log what was emitted."""

    def __init__(self, name="out"):
        self.name = name

    def __call__(self, value):
        LOG((self.name, value))


def check(value):
    if value == POISON:
        raise ValueError("poison")
    return value


class Program:
    """One job in several runs, each at its own parallelism.

    A run reads one batch of each source in an epoch and breaks down behind the last one, unless it is the final run. All
    sources but the first one last as long as that, or end when they have nothing more if they are `ending`.
    """

    def __init__(self, directory: Path):
        self.directory = directory

    def run(self, parallelism, build, *sources, final=False, ending=False):
        options = {
            "execution.checkpointing.interval": "15 ms",
            "execution.checkpointing.dir": f"{self.directory}",
            "penstock.job-id": JOB_ID,
            "restart-strategy.type": "none",
            "penstock.debug.check-order": "true",
        }
        env = configured(options, parallelism)
        streams = []
        for number, batches in enumerate(sources):
            script = [*batches] if final or number else [*batches, [(POISON, 0)]]
            if not ending:  # the other sources must not end before the first one breaks down
                script += [[]] * (len(sources[0]) + 2 - len(script))
            source = env.from_source(Script(script), MONOTONOUS, f"in{number}")
            stream = source.uid(f"in{number}")
            streams.append(stream.map(check).uid(f"check{number}"))
        build(*streams)
        start = len(LOG.lines)
        if final:
            env.execute("rescaled")
        else:
            with pytest.raises(JobExecutionError, match="poison"):
                env.execute("rescaled")
        return LOG.lines[start:]


@pytest.fixture
def program(tmp_path):
    return Program(tmp_path)


def sink(stream, name="out"):
    stream.add_sink(Note(name)).uid(name)


STEPS = [
    pytest.param((1, 3, 2), id="1 -> 3 -> 2"),
    pytest.param((2, 2, 2), id="2 -> 2 -> 2"),
    pytest.param((3, 1, 4), id="3 -> 1 -> 4"),
]


# Operator state


class Seen(MapFunction, CheckpointedFunction):
    """Remembers all it saw, and tells at the start what it remembers."""

    def __init__(self, method):
        self.method = method

    def initialize_state(self, context):
        store = context.get_operator_state_store()
        self.state = getattr(store, self.method)(ListStateDescriptor("seen"))
        self.mine = []
        LOG(("restored", context.is_restored()))
        if self.method == "get_list_state":
            self.mine = list(self.state.get())
        else:
            LOG(("union", tuple(sorted(self.state.get()))))

    def snapshot_state(self, context):
        self.state.update(self.mine)

    def map(self, value):
        self.mine.append(value)
        return value

    def close(self):
        LOG(("kept", tuple(self.mine)))


def values(*numbers):
    return [(number, number) for number in numbers]


@pytest.mark.parametrize("steps", STEPS)
def test_list_state_is_neither_lost_nor_doubled(program, steps):
    def build(stream):
        sink(stream.rebalance().map(Seen("get_list_state")).uid("seen"))

    batches = [values(*range(n, n + 7)) for n in (0, 10, 20)]
    kept = []
    for run, parallelism in enumerate(steps):
        lines = program.run(parallelism, build, batches[: run + 1], final=run == 2)
        assert {value for name, value in lines if name == "restored"} == {run > 0}
        kept = [value for name, value in lines if name == "kept"]
    # The last subtasks to be closed are those of the end of the job.
    last = kept[-steps[-1] :]
    assert sorted(value for part in last for value in part) == sorted(
        number for batch in batches for number, _ in batch
    )


@pytest.mark.parametrize("steps", STEPS)
def test_union_list_state_goes_to_every_subtask(program, steps):
    def build(stream):
        sink(stream.rebalance().map(Seen("get_union_list_state")).uid("seen"))

    first, second = values(*range(7)), values(*range(10, 15))
    program.run(steps[0], build, [first])
    lines = program.run(steps[1], build, [first, second])
    unions = [value for name, value in lines if name == "union"]
    assert unions[: steps[1]] == [tuple(range(7))] * steps[1]
    assert ("restored", True) in lines


@pytest.mark.parametrize("steps", STEPS)
def test_an_operator_that_leaves_its_chain_takes_its_list_state_along(program, steps):
    """In the first run the function is chained to the source; then it has a parallelism of its own."""

    def chained(stream):
        sink(stream.map(Seen("get_list_state")).uid("seen"))

    def apart(stream):
        mapped = stream.map(Seen("get_list_state")).uid("seen").set_parallelism(4)
        sink(mapped.disable_chaining())

    first, second = values(*range(7)), values(*range(10, 15))
    program.run(steps[0], chained, [first])
    lines = program.run(steps[1], apart, [first, second], final=True)
    last = [value for name, value in lines if name == "kept"][-4:]
    assert sorted(value for part in last for value in part) == [*range(7), *range(10, 15)]


def test_an_operator_that_joins_a_chain_takes_its_list_state_along(program):
    """The chain that it joins has the same parallelism before and after."""

    def apart(stream):
        sink(stream.map(Seen("get_list_state")).uid("seen").disable_chaining())

    def chained(stream):
        sink(stream.map(Seen("get_list_state")).uid("seen"))

    first, second = values(*range(7)), values(*range(10, 15))
    program.run(2, apart, [first])
    lines = program.run(2, chained, [first, second], final=True)
    last = [value for name, value in lines if name == "kept"][-2:]
    assert sorted(value for part in last for value in part) == [*range(7), *range(10, 15)]


# Code


def test_a_resumed_job_runs_the_new_program_also_in_the_same_process(tmp_path):
    """Subtasks that the cancelled job left in this process are not used again."""

    def program(name, batches, *, bounded):
        options = {
            "execution.checkpointing.interval": "15 ms",
            "execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
            "execution.checkpointing.dir": f"{tmp_path}",
            "penstock.job-id": JOB_ID,
        }
        env = configured(options, 1)
        source = env.from_source(Script(batches, bounded=bounded), MONOTONOUS, "in").uid("in")
        return source.rebalance().map(lambda value: (name, value)).uid("map")

    old = program("old", [values(1)], bounded=False)
    assert take(old, 1) == [("old", 1)]
    new = collect(program("new", [values(1), values(2)], bounded=True))
    assert new[-1] == ("new", 2)  # what the last checkpoint committed may come again before it


# Two inputs


@pytest.mark.parametrize("steps", STEPS)
def test_keyed_state_and_timers_of_two_inputs(program, steps):
    def build(first, second):
        sink(first.connect(second).key_by(key_of, key_of).process(SharedSum()).uid("sum"))

    keys = [f"key{n}" for n in range(9)]
    plus = [[((key, 5), 1) for key in keys], [((key, 7), 2) for key in keys], [(("z", 1), 50)]]
    minus = [[((key, 1), 1) for key in keys], [], [(("z", 1), 50)]]
    for run, parallelism in enumerate(steps):
        lines = program.run(
            parallelism, build, plus[: run + 1], minus[: run + 1], final=run == len(steps) - 1
        )
        if run < 2:
            assert lines == []
    expected = [(key, 11, time) for key in keys for time in (11, 12)] + [("z", 0, 60)]
    assert sorted(value for _, value in lines) == sorted(expected)


@pytest.mark.parametrize("steps", STEPS)
def test_broadcast_state_beside_keys(program, steps):
    def build(data, rules):
        sink(data.key_by(key_of).connect(rules.broadcast(RULES)).process(Scaled()).uid("scaled"))

    keys = [f"key{n}" for n in range(9)]
    data = [[], [((key, 1), 1) for key in keys], [((key, 2), 2) for key in keys]]
    rules = [[(10, 0)], [(100, 1)], []]
    for run, parallelism in enumerate(steps):
        lines = program.run(
            parallelism, build, data[: run + 1], rules[: run + 1], final=run == len(steps) - 1
        )
    # The second batch comes in the same epoch as the factor 100; the third one after it.
    sums = {key: value for _, (key, value, _) in lines}
    assert set(sums) == set(keys)
    assert set(sums.values()) <= {210, 300}
    assert {factor for _, (_, _, factor) in lines} == {100}


@pytest.mark.parametrize("steps", STEPS)
def test_broadcast_state_without_keys(program, steps):
    def build(data, rules):
        sink(data.rebalance().connect(rules.broadcast(RULES)).process(Price()).uid("price"))

    data = [[], [("tea", 1)] * 8, [("tea", 2), ("cake", 2)] * 8]
    rules = [[(("tea", 3), 0)], [(("cake", 5), 1)], []]
    found = []
    for run, parallelism in enumerate(steps):
        found += program.run(
            parallelism, build, data[: run + 1], rules[: run + 1], final=run == len(steps) - 1
        )
    assert sorted(value for _, value in found) == [("cake", 5)] * 8 + [("tea", 3)] * 16


# Time


class Watermarks(KeyedProcessFunction):
    def process_element(self, value, ctx):
        yield value, ctx.timer_service().current_watermark()


@pytest.mark.parametrize("steps", STEPS)
def test_time_does_not_go_back_when_the_job_is_resumed(program, steps):
    def build(stream):
        sink(stream.key_by(abs).process(Watermarks()).uid("watermarks"))

    batches = [values(100), values(101), values(102), values(103)]
    seen = []
    for run, parallelism in enumerate(steps):
        seen += program.run(parallelism, build, batches[: run + 2], final=run == 2)
    marks = [watermark for _, (_, watermark) in seen]
    assert marks == sorted(marks)
    assert marks[-1] >= 101


@pytest.mark.parametrize("steps", STEPS)
def test_late_records_stay_late_when_the_job_is_resumed(program, steps):
    def build(stream):
        windows = stream.key_by(lambda value: 0).window(
            TumblingEventTimeWindows.of(Time.milliseconds(10))
        )
        sink(windows.reduce(lambda a, b: a + b).uid("windows"))

    # 25 closes the windows of 1 and 11; 2 and 12 come too late for them, each in the first epoch of a run
    batches = [[(1, 1), (11, 11), (25, 25)], [(2, 2)], [(12, 12)]]
    found = []
    for run, parallelism in enumerate(steps):
        found += program.run(parallelism, build, batches[: run + 1], final=run == 2)
    assert sorted(value for _, value in found) == [1, 11, 25]


@pytest.mark.parametrize("steps", STEPS)
def test_a_source_that_has_ended_does_not_hold_time_back_after_a_change(program, steps):
    """The second source ends in the first run: its MAX must be known to the new subtasks too."""

    def build(first, second):
        sink(first.union(second).key_by(abs).process(Timer()).uid("timer"))

    class Timer(KeyedProcessFunction):
        def open(self, runtime_context):
            self.state = runtime_context.get_state(ValueStateDescriptor("v"))

        def process_element(self, value, ctx):
            ctx.timer_service().register_event_time_timer(ctx.timestamp() + 5)

        def on_timer(self, timestamp, ctx):
            yield timestamp

    batches = [values(100), values(110), values(120), values(130)]
    found = []
    for run, parallelism in enumerate(steps):
        lines = program.run(
            parallelism, build, batches[: run + 2], [values(1)], final=run == 2, ending=True
        )
        found.append([value for _, value in lines])
    assert found[0] == [6, 105]
    assert found[1] == [115]
    assert found[2] == [125, 135]
