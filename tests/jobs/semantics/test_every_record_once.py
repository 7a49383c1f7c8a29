"""Programs of all shapes: every user function sees every record exactly once, at any parallelism, over any epochs."""

from __future__ import annotations

from collections import Counter

import pytest

from penstock.datastream import FlatMapFunction, KeyedProcessFunction, OutputTag, ProcessFunction
from tests.builders.scripted import LOG, MONOTONOUS, Note, environment, read

N = 24
ALL = range(N)
ODD = OutputTag("odd")


def numbers(env, first=0, last=N, *, name="in", splits=3):
    """Read numbers in several splits of several batches of three."""
    values = list(range(first, last))
    parts = [values[n::splits] for n in range(splits)]
    batches = [
        [[(value, value) for value in part[at : at + 3]] for at in range(0, len(part), 3)]
        for part in parts
    ]
    return read(env, *batches, strategy=MONOTONOUS, name=name)


class Split(ProcessFunction):
    def __init__(self, name):
        self.name = name

    def process_element(self, value, ctx):
        LOG((self.name, value))
        yield (ODD, value) if value % 2 else value


class Sink:
    """A sink function that notes what it writes."""

    def __init__(self, name):
        self.name = name

    def invoke(self, value):
        LOG((self.name, value))


def expect(**seen):
    """Return the counts of (function, value) for functions that see values, or (values, copies)."""
    expected = Counter()
    for name, values in seen.items():
        values, copies = values if isinstance(values, tuple) else (values, 1)
        for value in values:
            expected[name, value] += copies
    return expected


def linear(env):
    numbers(env).map(Note("a")).map(Note("b")).filter(lambda n: True).map(Note("c"))
    return expect(a=ALL, b=ALL, c=ALL)


def chaining_disabled(env):
    env.disable_operator_chaining()
    numbers(env).map(Note("a")).map(Note("b")).map(Note("c"))
    return expect(a=ALL, b=ALL, c=ALL)


def new_chains(env):
    numbers(env).map(Note("a")).start_new_chain().map(Note("b")).disable_chaining().map(Note("c"))
    return expect(a=ALL, b=ALL, c=ALL)


def fan_out(env):
    start = numbers(env).map(Note("a"))
    start.map(Note("b"))
    start.map(Note("c"))
    start.key_by(lambda n: n % 5).map(Note("d"))
    return expect(a=ALL, b=ALL, c=ALL, d=ALL)


def fan_in(env):
    streams = [
        numbers(env, at, at + N, name=f"in {at}").map(Note(f"a{at}")) for at in (0, 100, 200)
    ]
    streams[0].union(*streams[1:]).map(Note("b"))
    parts = {f"a{at}": range(at, at + N) for at in (0, 100, 200)}
    return expect(b=[n for part in parts.values() for n in part], **parts)


def diamond(env):
    start = numbers(env).map(Note("a"))
    left, right = start.map(Note("b")), start.map(Note("c", 1000))
    left.union(right).map(Note("d"))
    return expect(a=ALL, b=ALL, c=ALL, d=[*ALL, *(n + 1000 for n in ALL)])


def uneven_diamond(env):
    """One arm has two exchanges more than the other, so records of the short arm skip levels."""
    start = numbers(env).map(Note("a"))
    long = start.key_by(lambda n: n % 5).map(Note("b")).rebalance().map(Note("c", 1000))
    start.rebalance().union(long.key_by(lambda n: n % 3)).map(Note("d"))
    return expect(a=ALL, b=ALL, c=ALL, d=[*ALL, *(n + 1000 for n in ALL)])


def side_outputs(env):
    start = numbers(env).process(Split("a"))
    start.map(Note("even"))
    start.get_side_output(ODD).map(Note("odd"))
    start.get_side_output(ODD).key_by(lambda n: n).map(Note("keyed odd"))
    odd = [n for n in ALL if n % 2]
    return expect(**{"a": ALL, "even": [n for n in ALL if not n % 2], "odd": odd, "keyed odd": odd})


def two_sources_three_sinks(env):
    first = numbers(env, name="first").map(Note("a"))
    second = numbers(env, 100, 100 + N, name="second").map(Note("b"))
    first.add_sink(Sink("s1"))
    second.add_sink(Sink("s2"))
    first.union(second).key_by(lambda n: n % 4).map(Note("c")).add_sink(Sink("s3"))
    other = range(100, 100 + N)
    return expect(a=ALL, b=other, c=[*ALL, *other], s1=ALL, s2=other, s3=[*ALL, *other])


def differing_parallelism(env):
    (
        numbers(env)
        .map(Note("a"))
        .set_parallelism(1)
        .map(Note("b"))
        .set_parallelism(3)
        .key_by(lambda n: n % 7)
        .map(Note("c"))
        .set_parallelism(5)
        .map(Note("d"))
        .set_parallelism(2)
        .add_sink(Sink("s"))
        .set_parallelism(1)
    )
    return expect(a=ALL, b=ALL, c=ALL, d=ALL, s=ALL)


def repartitioned(env):
    stream = numbers(env).map(Note("a"))
    stream.rebalance().map(Note("rebalance")).set_parallelism(3)
    stream.rescale().map(Note("rescale up")).set_parallelism(5)
    stream.rescale().map(Note("rescale down")).set_parallelism(1)
    stream.shuffle().map(Note("shuffle"))
    stream.global_().map(Note("global"))
    stream.forward().map(Note("forward"))
    stream.partition_custom(lambda key, count: key % count, lambda n: n // 2).map(Note("custom"))
    stream.broadcast().map(Note("broadcast")).set_parallelism(3)
    names = ["rebalance", "rescale up", "rescale down", "shuffle", "global", "forward", "custom"]
    return expect(**{"a": ALL, "broadcast": (ALL, 3), **dict.fromkeys(names, ALL)})


def keyed_twice(env):
    (
        numbers(env)
        .key_by(lambda n: n % 5)
        .map(Note("a"))
        .key_by(lambda n: n % 3)
        .reduce(lambda a, b: b)
        .map(Note("b"))
    )
    return expect(a=ALL, b=ALL)


class Twice(FlatMapFunction):
    def flat_map(self, value):
        LOG(("a", value))
        return [value, value]


def flat(env):
    numbers(env).flat_map(Twice()).rebalance().map(Note("b"))
    return expect(a=ALL, b=(ALL, 2))


class Alarm(KeyedProcessFunction):
    def process_element(self, value, ctx):
        LOG(("a", value))
        ctx.timer_service().register_event_time_timer(value)

    def on_timer(self, timestamp, ctx):
        LOG(("timer", timestamp))
        yield timestamp


def timers(env):
    numbers(env).key_by(lambda n: n % 5).process(Alarm()).rebalance().map(Note("b"))
    return expect(a=ALL, timer=ALL, b=ALL)


SHAPES = [
    linear,
    chaining_disabled,
    new_chains,
    fan_out,
    fan_in,
    diamond,
    uneven_diamond,
    side_outputs,
    two_sources_three_sinks,
    differing_parallelism,
    repartitioned,
    keyed_twice,
    flat,
    timers,
]
shapes = pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.__name__)


@shapes
@pytest.mark.parametrize("parallelism", [1, 2, 4])
def test_in_one_epoch_every_function_sees_every_record_once(shape, parallelism, cluster):
    env = environment(parallelism)
    env.get_config().set_auto_watermark_interval(1)
    expected = shape(env)
    env.execute()
    assert LOG.counts() == expected
    assert epochs_of(cluster) == 1


@shapes
@pytest.mark.parametrize("parallelism", [1, 2])
def test_over_several_epochs_every_function_sees_every_record_once(shape, parallelism, cluster):
    env = environment(parallelism, checkpoints=10)
    expected = shape(env)
    env.execute()
    assert LOG.counts() == expected
    assert epochs_of(cluster) >= 3


def epochs_of(cluster):
    return cluster.masters[-1].manifest.checkpoint_id


class FailOnce(Note):
    """Fails on one record, in the first run only."""

    def open(self, runtime_context):
        self.attempt = runtime_context.get_attempt_number()

    def map(self, value):
        if value == 13 and self.attempt == 0:
            raise RuntimeError("as planned")
        return super().map(value)


@pytest.mark.parametrize("parallelism", [1, 2, 4])
def test_after_a_failure_results_count_once(parallelism, cluster):
    env = environment(parallelism, checkpoints=10)
    stream = numbers(env).map(FailOnce("a")).key_by(lambda n: n % 5)
    sums = stream.map(lambda n: (n % 5, 1)).key_by(lambda pair: pair[0]).sum(1)
    with sums.execute_and_collect() as results:
        found = list(results)
    last = {}
    for key, count in found:
        last[key] = max(count, last.get(key, 0))
    assert last == Counter(n % 5 for n in ALL)
    assert len(found) == N  # each update once
    assert cluster.masters[-1].restarts == 1
