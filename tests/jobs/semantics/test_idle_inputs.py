"""Rule 3 through whole jobs: splits without records, inputs and channels that are idle and come back.

One batch of each source is read per epoch (splits of one source may fall behind each other by an epoch or two), and a
generator says when its stream is idle, so no clock is needed.
"""

from __future__ import annotations

import pytest

from penstock.common import WatermarkStrategy
from penstock.common.watermark_strategy import Watermark, WatermarkGenerator
from penstock.datastream import CoProcessFunction, ProcessFunction
from penstock.runtime.task.epochs import subtask_cache
from tests.builders.scripted import MIN, environment, read, take

IDLE = ("idle", 0)  # from here on the stream is idle, until its next record


class IdleOnDemand(WatermarkGenerator):
    """Monotonous timestamps, per event."""

    def on_event(self, event, timestamp, output):
        if event == "idle":
            output.mark_idle()
        else:
            output.emit_watermark(Watermark(timestamp - 1))

    def on_periodic_emit(self, output):
        """Everything was said per event."""


ON_DEMAND = WatermarkStrategy.for_generator(IdleOnDemand)


class Watermarks(ProcessFunction):
    """Emits (value, watermark)."""

    def process_element(self, value, ctx):
        yield value, ctx.timer_service().current_watermark()


class BothWatermarks(CoProcessFunction):
    """Emits (value, watermark)."""

    def process_element1(self, value, ctx):
        yield value, ctx.timer_service().current_watermark()

    process_element2 = process_element1


@pytest.fixture(params=[True, False], ids=["kept alive", "restored for every epoch"])
def alive(request, monkeypatch):
    if not request.param:
        monkeypatch.setattr(subtask_cache, "put", lambda job, each, *_: each.close())


def script(env, *splits, name="in"):
    return read(env, *splits, strategy=ON_DEMAND, bounded=False, name=name)


@pytest.mark.usefixtures("alive")
def test_a_split_without_records_yet_holds_the_watermark_back():
    env = environment(checkpoints=10)
    fast = [[(f"f{n}", 10 * n)] for n in range(15)]
    slow = [[], [], [], [("q", 5)]]
    met = take(script(env, fast, slow).process(Watermarks()), 16)
    until_q = [value for value, _ in met].index("q") + 1
    assert until_q > 3
    assert {watermark for _, watermark in met[:until_q]} == {MIN}
    assert met[-1] == ("f14", 4)


@pytest.mark.usefixtures("alive")
def test_when_all_splits_are_idle_time_goes_to_the_highest_of_them():
    env = environment(checkpoints=10)
    first = [[("a", 50)], [IDLE], *[[]] * 10, [("c", 60)]]
    second = [[("b", 20)], [], [IDLE]]
    met = take(script(env, first, second).rebalance().process(Watermarks()), 5)
    assert met[-1] == ("c", 49)


@pytest.mark.parametrize("mode", ["epochs"], indirect=True)  # what comes together is one epoch
@pytest.mark.usefixtures("alive")
def test_an_input_that_returns_from_idleness_is_not_late_because_the_other_input_went_on():
    env = environment(checkpoints=10)
    left = script(env, [[("l10", 10), IDLE], [("l50", 50)], [("l150", 150)]], name="left")
    right = script(env, [[("r100", 100)], [("r200", 200)], [("r300", 300)]], name="right")
    met = dict(take(left.connect(right).process(BothWatermarks()), 7))
    assert (met["l50"], met["r200"]) == (99, 99)
    # The left input is at 49: it does not have to reach 99 first to be heard.
    assert (met["l150"], met["r300"]) == (99, 99)


@pytest.mark.parametrize("mode", ["epochs"], indirect=True)  # what comes together is one epoch
@pytest.mark.usefixtures("alive")
def test_streams_of_a_union_are_one_input_where_one_that_returns_must_catch_up_first():
    env = environment(checkpoints=10)
    left = script(env, [[("l10", 10), IDLE], [("l50", 50)], [("l150", 150)]], name="left")
    right = script(env, [[("r100", 100)], [("r200", 200)], [("r300", 300)]], name="right")
    met = dict(take(left.union(right).process(Watermarks()), 7))
    assert (met["l50"], met["r200"]) == (99, 99)
    assert (met["l150"], met["r300"]) == (199, 199)


def by_turns(env):
    """Both streams, one after the other: what the second has to say comes when all know what the first has said."""
    left = [[("l10", 10), IDLE], [], [("l50", 50)], [], [("l150", 150)], []]
    right = [[], [("r100", 100)], [], [("r200", 200)], [], [("r300", 300)]]
    return script(env, left, name="left"), script(env, right, name="right")


@pytest.mark.usefixtures("alive")
def test_an_input_that_returns_is_heard_at_once():
    env = environment(checkpoints=10)
    left, right = by_turns(env)
    met = dict(take(left.connect(right).process(BothWatermarks()), 7))
    assert (met["l50"], met["r200"], met["l150"], met["r300"]) == (99, 99, 99, 149)


@pytest.mark.usefixtures("alive")
def test_a_stream_of_a_union_that_returns_is_heard_when_it_has_caught_up():
    env = environment(checkpoints=10)
    left, right = by_turns(env)
    met = dict(take(left.union(right).process(Watermarks()), 7))
    assert (met["l50"], met["r200"], met["l150"], met["r300"]) == (99, 99, 199, 199)


def three(env, *batches):
    return [script(env, list(each), name=f"s{n}") for n, each in enumerate(batches)]


@pytest.mark.usefixtures("alive")
@pytest.mark.parametrize(
    ("batches", "expected"),
    [
        pytest.param(
            # The last one to go idle (s2, at 11) is behind the others, who had got to 20 and 25.
            [
                [[("a", 11)], [("b", 21)], [], [IDLE], [], [("end", 30)]],
                [[("c", 11)], [("d", 26)], [IDLE], [], [], []],
                [[("e", 11)], [IDLE], [("f", 12)], [], [IDLE], []],
            ],
            20,
            id="the last one was behind: only idle",
        ),
        pytest.param(
            [
                [[("a", 11)], [("b", 21)], [], [], [IDLE], [("end", 30)]],
                [[("c", 11)], [("d", 26)], [IDLE], [], [], []],
                [[("e", 11)], [IDLE], [], [], [], []],
            ],
            25,
            id="the last one held the others back: the highest is flushed",
        ),
    ],
)
def test_what_the_last_active_channel_leaves_behind(batches, expected):
    env = environment(checkpoints=10)
    first, *others = three(env, *batches)
    count = sum(len(batch) for each in batches for batch in each)
    met = take(first.union(*others).process(Watermarks()), count)
    assert dict(met)["end"] == expected
