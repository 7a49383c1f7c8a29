"""State of all kinds, with and without a time to live, is what plain dictionaries say: over barriers, crashes, changes of
the parallelism and of the backend, with files that are merged and written over several epochs."""

from __future__ import annotations

import copy
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.checkpoint import shared_files
from penstock.graph.key_groups import key_group_of, subtask_of
from penstock.runtime.state.rocksdb import backend as rocksdb
from penstock.runtime.state.rocksdb import lists as rocksdb_lists
from penstock.state_descriptors.descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)
from penstock.time.durations import Duration
from tests.builders.examples import examples
from tests.unit.runtime.state.worlds import BACKENDS, MAX_PARALLELISM, World

TTL = 100
KEYS = ["a", 1, True, 1.0, 2.5, None, ("t", 1), ("t", 1.0), b"b"]
KINDS = ["value", "list", "map", "reducing", "aggregating"]


class Sums:
    def create_accumulator(self):
        return (0, 0)

    def add(self, value, accumulator):
        return accumulator[0] + value, accumulator[1] + 1

    def get_result(self, accumulator):
        return accumulator


DESCRIPTORS = {
    "value": lambda: ValueStateDescriptor("value"),
    "list": lambda: ListStateDescriptor("list"),
    "map": lambda: MapStateDescriptor("map"),
    "reducing": lambda: ReducingStateDescriptor("reducing", lambda x, y: x + y),
    "aggregating": lambda: AggregatingStateDescriptor("aggregating", Sums()),
}


class Model:
    """By kind and key: `(value, time)` of values; of lists and maps all elements have their own time."""

    def __init__(self, lives):
        self.lives = lives  # by kind: None, or whether reading prolongs
        self.data = {}

    def alive(self, kind, stamped, now):
        return self.lives[kind] is None or stamped[1] + TTL > now

    def read(self, kind, key, now):
        stored = self.data.pop((kind, key), None)
        if stored is None:
            return {"list": [], "map": {}}.get(kind)
        time = (lambda stamped: now) if self.lives[kind] else (lambda stamped: stamped[1])
        if kind == "list":
            left = [(each[0], time(each)) for each in stored if self.alive(kind, each, now)]
            seen = [each[0] for each in left]
        elif kind == "map":
            items = stored.items()
            left = {k: (v[0], time(v)) for k, v in items if self.alive(kind, v, now)}
            seen = {k: v[0] for k, v in left.items()}
        else:
            left = (stored[0], time(stored)) if self.alive(kind, stored, now) else None
            seen = left and left[0]
        if left:
            self.data[kind, key] = left
        return seen

    def write(self, kind, key, item, value, now):
        stored = self.data.get((kind, key))
        if kind == "list":
            self.data[kind, key] = [*(stored or ()), (value, now)]
        elif kind == "map":
            self.data[kind, key] = {**(stored or {}), item: (value, now)}
        else:
            before = stored[0] if stored and self.alive(kind, stored, now) else None
            if kind == "reducing" and before is not None:
                value += before
            elif kind == "aggregating":
                value = Sums().add(value, before or (0, 0))
            self.data[kind, key] = (value, now)

    def remove_item(self, key, item):
        stored = dict(self.data.get(("map", key), {}))
        stored.pop(item, None)
        self.data["map", key] = stored


class Job:
    """The subtasks of an operator, with real checkpoints."""

    def __init__(self, kind, directory, lives, cleans):
        self.world = World(kind, directory, spill_entries=3, write_buffer_size=1 << 16)
        self.world.backend.close()
        self.lives, self.cleans = lives, cleans
        self.chains = [None]
        self.start(1, kind)

    def start(self, parallelism, kind):
        self.parallelism, self.kind = parallelism, kind
        if len(self.chains) == parallelism:
            self.backends = [self.world.create(subtask, kind) for subtask in range(parallelism)]
            self.continued = [
                backend.restore(self.world.io, (chain,), None, MAX_PARALLELISM) if chain else None
                for backend, chain in zip(self.backends, self.chains, strict=True)
            ]
        else:
            self.backends = [
                self.world.rescaled(self.chains, subtask, parallelism, kind)
                for subtask in range(parallelism)
            ]
            self.continued = [None] * parallelism
        self.states = [
            {kind: backend.get_state(self.descriptor(kind)) for kind in KINDS}
            for backend in self.backends
        ]

    def descriptor(self, kind):
        made = DESCRIPTORS[kind]()
        if self.lives[kind] is not None:
            builder = StateTtlConfig.new_builder(Duration.of_millis(TTL))
            if self.lives[kind]:
                builder.update_ttl_on_read_and_write()
            if not self.cleans:
                builder.disable_cleanup_in_background()
            made.enable_time_to_live(builder.build())
        return made

    def state(self, kind, key):
        group = key_group_of(key, MAX_PARALLELISM)
        subtask = subtask_of(group, self.parallelism, MAX_PARALLELISM)
        self.backends[subtask].current_key = key
        return self.states[subtask][kind]

    def barrier(self):
        for subtask, backend in enumerate(self.backends):
            chain = self.continued[subtask]
            written = self.world.write(backend, chain, force=chain is None)
            self.continued[subtask] = written or chain
        self.chains = list(self.continued)

    def merge(self):
        for backend in self.backends:
            if getattr(backend, "store", None) is not None:
                backend.store._db.flush()
                backend.store._db.compact_range(None, None)

    def close(self):
        for backend in self.backends:
            backend.close()


READ = {
    "value": lambda state: state.value(),
    "list": lambda state: list(state.get()),
    "map": lambda state: dict(state.items()),
    "reducing": lambda state: state.get(),
    "aggregating": lambda state: state.get(),
}


def write(state, kind, item, value):
    if kind == "value":
        state.update(value)
    elif kind == "map":
        state.put(item, value)
    else:
        state.add(value)


@st.composite
def histories(draw):
    """Steps that keep coming back to a few keys of one or two kinds of state."""
    kinds = st.sampled_from(draw(st.lists(st.sampled_from(KINDS), min_size=1, max_size=2)))
    keys = st.sampled_from(draw(st.lists(st.sampled_from(KEYS), min_size=1, max_size=3)))
    step = st.one_of(
        st.tuples(
            st.sampled_from(["write", "write", "write", "read", "clear"]),
            kinds,
            keys,
            keys,
            st.integers(0, 5),
        ),
        st.tuples(st.sampled_from(["barrier", "barrier", "merge", "write early"])),
        st.tuples(st.just("wait"), st.sampled_from([1, 50, 99, 100])),
        st.tuples(st.just("remove item"), keys, keys),
        st.tuples(st.just("crash"), st.booleans()),
        st.tuples(st.just("restart"), st.integers(1, 3), st.booleans(), st.booleans()),
    )
    return draw(st.lists(step, min_size=10, max_size=60))


LIVES = st.fixed_dictionaries({kind: st.sampled_from([None, False, True]) for kind in KINDS})


@pytest.fixture(autouse=True, scope="module")
def small_limits():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shared_files, "_AT_ONCE", 2_000)
        patch.setattr(shared_files, "_PART", 1_000)
        patch.setattr(rocksdb, "_MUCH", 500)
        patch.setattr(rocksdb_lists, "_CUT_BYTES", 40)
        yield


@settings(max_examples=examples(40), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(steps=histories(), lives=LIVES, cleans=st.booleans())
@pytest.mark.parametrize("kind", BACKENDS)
def test_state_matches_a_dictionary_model(kind, steps, lives, cleans):
    with tempfile.TemporaryDirectory() as directory:
        job = Job(kind, Path(directory), lives, cleans)
        model = Model(lives)
        saved = copy.deepcopy(model.data)
        clock = job.world.clock
        for name, *args in steps:
            if name == "write":
                state_kind, key, item, value = args
                write(job.state(state_kind, key), state_kind, item, value)
                model.write(state_kind, key, item, value, clock())
            elif name == "read":
                found = READ[args[0]](job.state(args[0], args[1]))
                assert found == model.read(args[0], args[1], clock())
            elif name == "clear":
                job.state(args[0], args[1]).clear()
                model.data.pop((args[0], args[1]), None)
            elif name == "remove item":
                job.state("map", args[0]).remove(args[1])
                model.remove_item(*args)
            elif name == "wait":
                clock.advance(args[0])
            elif name == "barrier":
                job.barrier()
                saved = copy.deepcopy(model.data)
            elif name == "merge":
                job.merge()
            elif name == "write early":
                for backend in job.backends:
                    backend.trim_cache()
            else:
                job.close()
                if args[-1]:
                    job.world.lose_local_files()
                if name == "restart" and None not in job.chains:
                    other = BACKENDS[1 - BACKENDS.index(job.kind)]
                    job.start(args[0], other if args[1] else job.kind)
                else:
                    job.start(len(job.chains), job.kind)
                model.data = copy.deepcopy(saved)
        for state_kind in KINDS:
            for key in KEYS:
                found = READ[state_kind](job.state(state_kind, key))
                assert found == model.read(state_kind, key, clock()), (state_kind, key)
        job.close()
