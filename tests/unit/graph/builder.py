"""Transformations made by hand, and the job shapes that the snapshots show."""

from __future__ import annotations

from typing import Any

from penstock.connectors.base.sink import Sink
from penstock.connectors.base.source import Boundedness, Source
from penstock.graph.operator_specs import (
    FilterSpec,
    FlatMapSpec,
    KeyedProcessSpec,
    KeyedReduceSpec,
    MapSpec,
    ProcessSpec,
    SinkSpec,
    SourceSpec,
)
from penstock.graph.partitioning import Broadcast, Custom, Forward, Hash, Partitioning, Rebalance
from penstock.graph.settings import GraphSettings
from penstock.graph.transformations import (
    OperatorTransformation,
    PartitionTransformation,
    SideOutputTransformation,
    Transformation,
    UnionTransformation,
)


class Numbers(Source):
    def __init__(self, boundedness: Boundedness = Boundedness.BOUNDED) -> None:
        self.boundedness = boundedness

    def get_boundedness(self) -> Boundedness:
        return self.boundedness

    def create_enumerator(self, parallelism: int, restored: Any = None) -> Any:
        raise NotImplementedError

    def create_reader(self) -> Any:
        raise NotImplementedError


class Printer(Sink):
    def __init__(self, path: str | None = None) -> None:
        self.path = path

    def create_writer(self, context: Any, restored: Any = None) -> Any:
        raise NotImplementedError

    def output_path(self) -> str | None:
        return self.path


class Doubler:
    def map(self, value: int) -> int:
        return 2 * value


def first(value: Any) -> Any:
    return value[0]


def modulo(key: int, partitions: int) -> int:
    return key % partitions


def source(name: str = "numbers", *, unbounded: bool = False, **settings: Any):
    bounds = Boundedness.CONTINUOUS_UNBOUNDED if unbounded else Boundedness.BOUNDED
    spec = SourceSpec(Numbers(bounds), None)
    return OperatorTransformation(name, kind="source", spec=spec, **settings)


def operator(name: str, *inputs: Transformation, **settings: Any):
    settings.setdefault("spec", MapSpec(Doubler()))
    return OperatorTransformation(name, inputs, **settings)


def process(name: str, *inputs: Transformation, **settings: Any):
    return operator(name, *inputs, spec=ProcessSpec(first), **settings)


def keyed(name: str, upstream: Transformation, **settings: Any):
    """key_by(first).process(...)."""
    return operator(
        name, key_by(upstream), spec=KeyedProcessSpec(first), key_selectors=(first,), **settings
    )


def sink(name: str, upstream: Transformation, **settings: Any):
    return OperatorTransformation(
        name, (upstream,), kind="sink", spec=SinkSpec(Printer()), **settings
    )


def partition(upstream: Transformation, how: Partitioning):
    return PartitionTransformation(how.NAME, (upstream,), partitioning=how)


def key_by(upstream: Transformation):
    return partition(upstream, Hash(first))


def union(*inputs: Transformation):
    return UnionTransformation("union", inputs)


def side(upstream: Transformation, tag: str):
    return SideOutputTransformation(tag, (upstream,), tag_id=tag)


Program = tuple[list[Transformation], GraphSettings]


def settings(**changes: Any) -> GraphSettings:
    return GraphSettings(**({"job_name": "job", "parallelism": 2} | changes))


def linear() -> Program:
    mapped = operator("double", source(), output_type="INT")
    kept = operator("keep", mapped, spec=FilterSpec(bool))
    return [sink("print", kept)], settings()


def keyed_job() -> Program:
    words = operator("split", source(uid="in"), spec=FlatMapSpec(str.split))
    counts = operator(
        "count", key_by(words), spec=KeyedReduceSpec(max), key_selectors=(first,), uid="counts"
    )
    return [sink("print", operator("show", counts))], settings(max_parallelism=64)


def fan_out() -> Program:
    parsed = operator("parse", source())
    left = operator("left", parsed, spec=FilterSpec(bool))
    right = operator("right", parsed)
    return [sink("a", left), sink("b", operator("after", right)), sink("c", right)], settings()


def fan_in() -> Program:
    united = union(source("a"), union(source("b", parallelism=1), operator("m", source("c"))))
    return [sink("print", keyed("count", united))], settings()


def union_with_itself() -> Program:
    numbers = source()
    return [sink("print", operator("twice", union(numbers, numbers)))], settings()


def diamond() -> Program:
    head = keyed("head", source())
    left, right = keyed("left", head), operator("right", partition(head, Rebalance()))
    joined = operator(
        "join",
        key_by(left),
        key_by(right),
        spec=KeyedProcessSpec(first),
        key_selectors=(first,) * 2,
    )
    return [sink("print", joined)], settings()


def side_outputs() -> Program:
    one = process("one", source())
    late = process("late", side(one, "late"))
    lost = operator("lost", union(side(one, "late"), side(late, "late"), side(late, "lost")))
    return [
        sink("main", one),
        sink("lost", lost),
        sink("keyed late", keyed("count late", side(one, "late"))),
    ], settings()


def two_sources_and_three_sinks() -> Program:
    clicks, views = source("clicks"), source("views", parallelism=3)
    both = operator(
        "match",
        key_by(clicks),
        key_by(operator("clean", views, parallelism=3)),
        spec=KeyedProcessSpec(first),
        key_selectors=(first, first),
    )
    return [
        sink("raw", clicks),
        sink("matched", both),
        sink("unmatched", side(both, "unmatched")),
    ], settings()


def differing_parallelisms() -> Program:
    one = source(parallelism=1)
    four = operator("four", one, parallelism=4)
    capped = operator("capped", four, parallelism=4, max_parallelism=16)
    return [
        sink("one", operator("fixed", capped, parallelism_fixed=True), parallelism=1)
    ], settings()


def chaining_disabled_for_all() -> Program:
    return linear()[0], settings(chaining_enabled=False)


def chaining_disabled_for_one() -> Program:
    alone = operator("alone", operator("before", source()), chaining="NEVER")
    return [sink("print", operator("after", alone))], settings()


def start_new_chain() -> Program:
    begins = operator("begins", operator("before", source()), chaining="HEAD")
    return [sink("print", operator("after", begins))], settings()


def slot_sharing_groups() -> Program:
    heavy = operator("heavy", source("a"), slot_sharing_group="heavy")
    inherits = operator("inherits", heavy)
    mixed = operator("mixed", union(inherits, source("b")))
    return [sink("heavy too", inherits), sink("default", mixed)], settings()


def explicit_partitionings() -> Program:
    numbers = source()
    rules = partition(source("rules", parallelism=1), Broadcast())
    ruled = operator("ruled", partition(numbers, Rebalance()), rules, spec=ProcessSpec(first))
    custom = operator("custom", partition(ruled, Custom(modulo, first)))
    last = operator("last wins", partition(key_by(union(custom, numbers)), Forward()))
    return [sink("print", last)], settings()


def skip_level_edges() -> Program:
    numbers = source()
    third = keyed("third", keyed("second", keyed("first", numbers)))
    late = operator("late", third, numbers, spec=ProcessSpec(first))
    # forward, but from level 1 to level 3
    fourth = operator("fourth", keyed("other", numbers), late, spec=ProcessSpec(first))
    return [sink("print", fourth)], settings()


SHAPES = {
    shape.__name__: shape
    for shape in (
        linear,
        keyed_job,
        fan_out,
        fan_in,
        union_with_itself,
        diamond,
        side_outputs,
        two_sources_and_three_sinks,
        differing_parallelisms,
        chaining_disabled_for_all,
        chaining_disabled_for_one,
        start_new_chain,
        slot_sharing_groups,
        explicit_partitionings,
        skip_level_edges,
    )
}
