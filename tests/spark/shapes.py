"""Programs of all shapes, built on numbers, with a counter in every user function."""

from __future__ import annotations

from collections import Counter

from penstock.common import WatermarkStrategy
from penstock.datastream import MapFunction, OutputTag, ProcessFunction
from penstock.datastream.connectors.number_seq import NumberSequenceSource


class Seen(MapFunction):
    """Passes records on (plus `add`) and counts them."""

    def __init__(self, add=0):
        self.add = add

    def open(self, runtime_context):
        self.seen = runtime_context.get_metrics_group().counter("seen")

    def map(self, value):
        self.seen.inc()
        return value + self.add


class Split(ProcessFunction):
    """Even numbers to the main output, odd ones to the side output."""

    def __init__(self, tag):
        self.tag = tag

    def open(self, runtime_context):
        self.seen = runtime_context.get_metrics_group().counter("seen")

    def process_element(self, value, ctx):
        self.seen.inc()
        if value % 2:
            yield self.tag, value
        else:
            yield value


def numbers(env, first, last, name):
    source = NumberSequenceSource(first, last)
    return env.from_source(source, WatermarkStrategy.no_watermarks(), name)


def linear(env, n):
    stream = numbers(env, 1, n, "in").map(Seen()).name("a").map(Seen()).name("b")
    return [stream], {"a": n, "b": n}, Counter(range(1, n + 1))


def keyed(env, n):
    stream = numbers(env, 1, n, "in").key_by(lambda x: x % 7).map(Seen()).name("a")
    return [stream], {"a": n}, Counter(range(1, n + 1))


def fan_out(env, n):
    start = numbers(env, 1, n, "in").map(Seen()).name("a")
    left, right = start.map(Seen()).name("b"), start.map(Seen(n)).name("c")
    return [left, right], {"a": n, "b": n, "c": n}, Counter(range(1, 2 * n + 1))


def fan_in(env, n):
    left, right = numbers(env, 1, n, "x"), numbers(env, n + 1, 2 * n, "y")
    stream = left.union(right).map(Seen()).name("a")
    return [stream], {"a": 2 * n}, Counter(range(1, 2 * n + 1))


def diamond(env, n):
    start = numbers(env, 1, n, "in").map(Seen()).name("a")
    left, right = start.map(Seen()).name("b"), start.map(Seen()).name("c")
    stream = left.union(right).map(Seen()).name("d")
    return [stream], {"a": n, "b": n, "c": n, "d": 2 * n}, Counter(list(range(1, n + 1)) * 2)


def side_outputs(env, n):
    tag = OutputTag("odd")
    main = numbers(env, 1, n, "in").process(Split(tag)).name("a")
    odd = main.get_side_output(tag).map(Seen()).name("b")
    return (
        [main.map(Seen()).name("c"), odd],
        {"a": n, "b": n // 2, "c": n // 2},
        Counter(range(1, n + 1)),
    )


def one_tag_at_two_operators(env, n):
    tag = OutputTag("odd")
    first = numbers(env, 1, n, "in").process(Split(tag)).name("a")
    second = first.map(Seen(1)).name("b").process(Split(tag)).name("c")
    odd = first.get_side_output(tag).union(second.get_side_output(tag)).map(Seen()).name("d")
    counts = {"a": n, "b": n // 2, "c": n // 2, "d": n}
    odd_numbers = list(range(1, n + 1, 2))
    return [odd, second], counts, Counter(odd_numbers + [x + 1 for x in range(2, n + 1, 2)])


def two_sources_three_sinks(env, n):
    left, right = numbers(env, 1, n, "x").map(Seen()).name("a"), numbers(env, n + 1, 2 * n, "y")
    both = left.union(right).rebalance().map(Seen()).name("b")
    streams = [left, right.map(Seen()).name("c"), both]
    counts = {"a": n, "b": 2 * n, "c": n}
    return streams, counts, Counter(list(range(1, 2 * n + 1)) * 2)


def differing_parallelisms(env, n):
    p = env.get_parallelism()
    stream = numbers(env, 1, n, "in").map(Seen()).name("a").set_parallelism(p + 1)
    stream = stream.map(Seen()).name("b").set_parallelism(max(p - 1, 1))
    return [stream.map(Seen()).name("c")], {"a": n, "b": n, "c": n}, Counter(range(1, n + 1))


def chaining_disabled(env, n):
    env.disable_operator_chaining()
    stream = (
        numbers(env, 1, n, "in").map(Seen()).name("a").map(Seen()).name("b").map(Seen()).name("c")
    )
    return [stream], {"a": n, "b": n, "c": n}, Counter(range(1, n + 1))


def new_chain_and_alone(env, n):
    stream = numbers(env, 1, n, "in").map(Seen()).name("a").start_new_chain()
    stream = stream.map(Seen()).name("b").disable_chaining().map(Seen()).name("c")
    return [stream], {"a": n, "b": n, "c": n}, Counter(range(1, n + 1))


def own_slot_sharing_group(env, n):
    stream = numbers(env, 1, n, "in").map(Seen()).name("a")
    return (
        [stream.map(Seen()).name("b").slot_sharing_group("own")],
        {"a": n, "b": n},
        Counter(range(1, n + 1)),
    )


def exchanges(env, n):
    stream = (
        numbers(env, 1, n, "in").rebalance().map(Seen()).name("a").rescale().map(Seen()).name("b")
    )
    stream = stream.shuffle().map(Seen()).name("c")
    stream = (
        stream.partition_custom(lambda key, parts: key % parts, lambda x: x).map(Seen()).name("d")
    )
    return [stream], {"a": n, "b": n, "c": n, "d": n}, Counter(range(1, n + 1))


def broadcast(env, n):
    p = env.get_parallelism()
    stream = numbers(env, 1, n, "in").broadcast().map(Seen()).name("a")
    return [stream], {"a": n * p}, Counter(list(range(1, n + 1)) * p)


def skip_level(env, n):
    start = numbers(env, 1, n, "in")
    far = start.rebalance().map(Seen()).name("a").rebalance().map(Seen()).name("b")
    stream = start.union(far).key_by(lambda x: x).map(Seen()).name("c")
    return [stream], {"a": n, "b": n, "c": 2 * n}, Counter(list(range(1, n + 1)) * 2)


SHAPES = [
    linear, keyed, fan_out, fan_in, diamond, side_outputs, one_tag_at_two_operators, two_sources_three_sinks,
    differing_parallelisms, chaining_disabled, new_chain_and_alone, own_slot_sharing_group, exchanges, broadcast,
    skip_level,
]  # fmt: skip
