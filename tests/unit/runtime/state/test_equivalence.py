"""Any sequence of operations, barriers, crashes and restores leaves both backends with the same state."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.state_descriptors.descriptors import (
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)
from penstock.windowing import TimeWindow
from tests.builders.examples import examples
from tests.unit.runtime.state.worlds import World, contents

KEYS = st.sampled_from(["a", "b", 1, True, 2.5, ("t", 1), None])
NUMBERS = st.integers(0, 5)
TIMES = st.integers(0, 30)
OPERATIONS = st.one_of(
    st.tuples(st.just("value"), KEYS, NUMBERS),
    st.tuples(st.just("clear value"), KEYS),
    st.tuples(st.just("append"), KEYS, NUMBERS),
    st.tuples(st.just("clear list"), KEYS),
    st.tuples(st.just("reduce"), KEYS, NUMBERS),
    st.tuples(st.just("map put"), KEYS, KEYS, NUMBERS),
    st.tuples(st.just("map remove"), KEYS, KEYS),
    st.tuples(st.just("map clear"), KEYS),
    st.tuples(st.just("map read"), KEYS, KEYS),
    st.tuples(st.just("window"), KEYS, NUMBERS, NUMBERS),
    st.tuples(st.just("clear window"), KEYS, NUMBERS),
    st.tuples(st.just("pane"), KEYS, NUMBERS, NUMBERS),
    st.tuples(st.just("remove from pane"), KEYS, NUMBERS),
    st.tuples(st.just("pop pane"), NUMBERS),
    st.tuples(st.just("timer"), TIMES, KEYS),
    st.tuples(st.just("delete timer"), TIMES, KEYS),
    st.tuples(st.just("fire"), TIMES),
    st.tuples(st.just("trim_cache")),
    st.tuples(st.just("barrier")),
    st.tuples(st.just("barrier without manifest")),
    st.tuples(st.just("crash")),
    st.tuples(st.just("crash, local files lost")),
)


class Program:
    """Runs operations on one world, as an operator would."""

    def __init__(self, kind, directory):
        self.world = World(kind, directory, spill_entries=3)
        self.bind()

    def bind(self):
        backend = self.backend = self.world.backend
        self.value = backend.get_state(ValueStateDescriptor("value"))
        self.list = backend.get_state(ListStateDescriptor("list"))
        self.map = backend.get_state(MapStateDescriptor("map"))
        self.sum = backend.get_state(ReducingStateDescriptor("sum", lambda x, y: x + y))
        self.window = backend.get_state(ValueStateDescriptor("window"), namespaced=True)
        self.panes = backend.table("panes/test", namespaced=True)
        self.timers = backend.create_timer_queue("timers/event")

    def run(self, operation):
        """Carry an operation out and return what the program sees of it."""
        name, *args = operation
        backend = self.backend
        if args:
            backend.current_key = args[0]
        match name:
            case "value":
                seen = self.value.value()
                self.value.update(args[1])
                return seen
            case "clear value":
                self.value.clear()
            case "append":
                self.list.add(args[1])
                return list(self.list.get())
            case "clear list":
                self.list.clear()
            case "reduce":
                self.sum.add(args[1])
                return self.sum.get()
            case "map put":
                self.map.put(args[1], args[2])
                return self.map.get(args[1])
            case "map remove":
                self.map.remove(args[1])
                return self.map.contains(args[1]), self.map.is_empty()
            case "map clear":
                self.map.clear()
                return self.map.is_empty()
            case "map read":
                return self.map.get(args[1]), args[1] in self.map, dict(self.map.items())
            case "window":
                backend.current_namespace = TimeWindow(args[1], args[1] + 1)
                seen = self.window.value()
                self.window.update(args[2])
                return seen
            case "clear window":
                backend.current_namespace = TimeWindow(args[1], args[1] + 1)
                self.window.clear()
            case "pane":
                entry = args[0], TimeWindow(args[1], args[1] + 5)
                seen = self.panes.get(entry)
                self.panes.put(entry, args[2])
                return seen
            case "remove from pane":
                self.panes.remove((args[0], TimeWindow(args[1], args[1] + 5)))
            case "pop pane":
                return self.panes.pop_pane(TimeWindow(args[0], args[0] + 5))
            case "timer":
                self.timers.register(args[0], args[1], None)
                return self.timers.next_time()
            case "delete timer":
                self.timers.delete(args[0], args[1], None)
                return self.timers.next_time()
            case "fire":
                fired = []
                self.timers.fire_until(args[0], lambda *timer: fired.append(timer))
                assert [timer[0] for timer in fired] == sorted(timer[0] for timer in fired)
                return sorted(map(repr, fired))
            case "trim_cache":
                backend.trim_cache()
            case "barrier":
                self.world.barrier()
            case "barrier without manifest":
                self.world.write(chain=self.world.chain, force=True)
                self.world.crash()
                self.bind()
            case "crash" | "crash, local files lost":
                self.world.crash(lose_local=name != "crash")
                self.bind()
        return None


def test_true_and_1_are_one_key_in_both(world):
    state = world.backend.get_state(ValueStateDescriptor("value"))
    world.backend.current_key = True
    state.update("x")
    world.barrier()
    world.crash()
    state = world.backend.get_state(ValueStateDescriptor("value"))
    world.backend.current_key = 1
    assert state.value() == "x"
    (key,) = world.backend.keys("state/value")
    assert key is True


@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(OPERATIONS, max_size=40))
def test_both_backends_show_and_keep_the_same(operations):
    with tempfile.TemporaryDirectory() as directory:
        programs = [
            Program(kind, Path(directory, kind).absolute()) for kind in ("hashmap", "rocksdb")
        ]
        for operation in operations:
            expected, found = (program.run(operation) for program in programs)
            assert found == expected, operation
        hashmap, rocksdb = (program.backend for program in programs)
        assert sorted(map(repr, rocksdb.keys("state/value"))) == sorted(
            map(repr, hashmap.keys("state/value"))
        )
        for program in programs:
            program.world.barrier()
        assert contents(rocksdb) == contents(hashmap)
        for program in programs:
            program.world.crash(lose_local=True)
        hashmap, rocksdb = (program.world.backend for program in programs)
        assert contents(rocksdb) == contents(hashmap)
        rocksdb.close()
