"""A restored state that the program reads as something else is refused, or carried over where nothing can be misread."""

from __future__ import annotations

import pytest

from penstock.common import Types
from penstock.errors import CheckpointError
from penstock.runtime.state.rocksdb import backend as rocksdb
from penstock.runtime.state.schema import StateSchema, difference
from penstock.state_descriptors.descriptors import (
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)
from penstock.time.durations import Duration
from tests.unit.runtime.state.worlds import World, contents

ROW = Types.ROW_NAMED(["id", "name"], [Types.INT(), Types.STRING()])


def value(type_info=None):
    return ValueStateDescriptor("s", type_info)


def expiring(descriptor):
    descriptor.enable_time_to_live(StateTtlConfig.new_builder(Duration.of_millis(500)).build())
    return descriptor


def restored(world, old, new, write):
    world.backend.current_key = "k"
    write(world.backend.get_state(old))
    world.barrier()
    world.crash(lose_local=True)
    world.backend.current_key = "k"
    return world.backend.get_state(new)


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        (value(), MapStateDescriptor("s"), "value state became map state"),
        (value(), ListStateDescriptor("s"), "value state became list state"),
        (value(Types.INT()), value(Types.STRING()), "Integer became String"),
        (value(Types.LONG()), value(Types.INT()), "Long became Integer"),
        (value(ROW), value(Types.ROW_NAMED(["id", "title"], [Types.INT(), Types.STRING()])),
         "field 1 was 'name' and is 'title'"),
        (value(ROW), value(Types.ROW_NAMED(["name", "id"], [Types.STRING(), Types.INT()])),
         "field 0 was 'id' and is 'name'"),
        (value(ROW), value(Types.ROW_NAMED(["id"], [Types.INT()])), "Row had 2 fields and has 1"),
        (value(ROW), value(Types.ROW_NAMED(["id", "name"], [Types.STRING(), Types.STRING()])),
         "field 'id': Integer became String"),
        (value(Types.TUPLE([Types.INT()])), value(Types.LIST(Types.INT())), "Tuple became ListTypeInfo"),
        (ReducingStateDescriptor("s", lambda x, y: x + y, Types.INT()), value(Types.INT()),
         "reducing state became value state"),
    ],
    ids=lambda case: case if isinstance(case, str) else "",
)  # fmt: skip
def test_incompatible_type_change_is_rejected(world, old, new, reason):
    with pytest.raises(CheckpointError, match="state 's' of operator 'counter'") as caught:
        restored(
            world, old, new, lambda state: getattr(state, "update", getattr(state, "add", None))(1)
        )
    assert caught.value.detail == reason
    assert StateSchema.of(old).text in caught.value.message
    assert StateSchema.of(new).text in caught.value.message
    assert "rename the state descriptor" in caught.value.hint


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (value(), value(Types.INT())),
        (value(Types.INT()), value()),
        (value(Types.INT()), value(Types.INT())),
        (value(Types.INT()), value(Types.LONG())),
        (value(Types.PICKLED_BYTE_ARRAY()), value(Types.INT())),
    ],
    ids=["typed later", "type left out", "same", "wider", "any object"],
)
def test_compatible_type_change_is_accepted(world, old, new):
    assert restored(world, old, new, lambda state: state.update(7)).value() == 7


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (("Tuple", ("Integer",), None), ("Tuple", ("Long",), ("String",)), None),
        (("Map", ("String",), ("Float",)), ("Map", ("String",), ("Double",)), None),
        (("Map", ("String",), ("Double",)), ("Map", ("String",), ("Float",)), "part 1 of Map: Double became Float"),
        (("Row", ("a", ("Row", ("b", ("Integer",))))), ("Row", ("a", ("Row", ("c", ("Integer",))))),
         "field 'a': field 0 was 'b' and is 'c'"),
    ],
    ids=["tuple", "wider in a map", "narrower in a map", "row in a row"],
)  # fmt: skip
def test_types_are_compared_by_their_parts(old, new, expected):
    assert difference(old, new) == expected


KINDS = {
    "value": (ValueStateDescriptor, lambda s: s.update(1), lambda s: s.value(), 1),
    "list": (ListStateDescriptor, lambda s: s.add_all([1, 2]), lambda s: list(s.get()), [1, 2]),
    "map": (MapStateDescriptor, lambda s: s.put_all({1: "a", 2: "b"}), lambda s: sorted(s.items()), [(1, "a"), (2, "b")]),
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("expires_later", [True, False], ids=["gets a ttl", "loses its ttl"])
def test_a_time_to_live_may_come_and_go(world, kind, expires_later):
    make, write, read, expected = KINDS[kind]
    plain, with_ttl = make("s"), expiring(make("s"))
    old, new = (plain, with_ttl) if expires_later else (with_ttl, plain)
    state = restored(world, old, new, write)
    assert read(state) == expected
    world.barrier()
    world.crash(lose_local=True)
    world.backend.current_key = "k"
    state = world.backend.get_state(new)
    assert read(state) == expected
    world.clock.advance(500)
    left = read(state)
    assert (not left) if expires_later else left == expected


def test_a_state_that_gets_a_ttl_is_rewritten_some_entries_at_a_time(tmp_path, monkeypatch):
    monkeypatch.setattr(rocksdb, "_IMPORT_AT_ONCE", 10)
    world = World("rocksdb", tmp_path)
    state = world.backend.get_state(value())
    for key in range(105):
        world.backend.current_key = key
        state.update(key)
    world.barrier()
    world.crash()
    sizes = []
    monkeypatch.setattr(
        world.backend.store,
        "_make",
        lambda changes, make=world.backend.store._make: (sizes.append(len(changes)), make(changes)),
    )
    state = world.backend.get_state(expiring(value()))
    assert world.backend.table("state/s").pending() == 0
    assert max(sizes) == 10
    assert len(contents(world.backend)["state/s"]) == 105
    world.clock.advance(500)
    assert "state/s" not in contents(world.backend)
    world.backend.close()


def joined(world, old, target="same"):
    """Let two subtasks write the state, each as one of two descriptors says, and one take it over from both."""
    chains = []
    for subtask, (descriptor, write) in enumerate(old):
        backend = world.create(subtask)
        backend.current_key = f"key {subtask}"
        write(backend.get_state(descriptor))
        chains.append(world.write(backend, force=True))
        backend.close()
    world.backend.close()
    world.backend = world.rescaled(chains, 0, 1, world.kind if target == "same" else target)


@pytest.mark.parametrize("target", ["hashmap", "rocksdb"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("wanted", ["plain", "expires"])
@pytest.mark.parametrize("first", ["plain", "expires"])
def test_subtasks_that_differ_in_time_to_live_can_be_joined(world, kind, first, wanted, target):
    # A state that is asked for when the first record comes has no time to live yet where none has come.
    make, write, read, expected = KINDS[kind]
    plain, expires = make("s"), expiring(make("s"))
    old = [plain, expires] if first == "plain" else [expires, plain]
    joined(world, [(descriptor, write) for descriptor in old], target)
    state = world.backend.get_state(plain if wanted == "plain" else expires)
    for key in ("key 0", "key 1"):
        world.backend.current_key = key
        assert read(state) == expected
    world.clock.advance(500)
    for key in ("key 0", "key 1"):
        world.backend.current_key = key
        assert bool(read(state)) == (wanted == "plain")


@pytest.mark.parametrize("swapped", [False, True], ids=["", "swapped"])
@pytest.mark.parametrize(
    ("one", "other", "refused"),
    [
        (value(Types.INT()), value(Types.LONG()), [value(Types.INT()), value(Types.STRING())]),
        (value(Types.INT()), value(), []),
        (value(Types.INT()), value(Types.INT()), [value(Types.STRING())]),
    ],
    ids=["a wider type", "a type and none", "the same type"],
)
def test_subtasks_that_differ_in_type_can_be_joined_if_one_holds_the_other(
    world, one, other, refused, swapped
):
    old = [(one, lambda state: state.update(1)), (other, lambda state: state.update(2))]
    joined(world, old[::-1] if swapped else old)
    for descriptor in refused:
        with pytest.raises(CheckpointError, match="the program declares"):
            world.backend.get_state(descriptor)
    state = world.backend.get_state(other)
    seen = set()
    for key in ("key 0", "key 1"):
        world.backend.current_key = key
        seen.add(state.value())
    assert seen == {1, 2}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ((value(Types.INT()), 1), (value(Types.STRING()), "a")),
        ((value(), 1), (ListStateDescriptor("s"), [1])),
    ],
    ids=["types", "kinds"],
)
def test_subtasks_that_know_a_state_as_different_things_are_not_joined(world, one, other):
    with pytest.raises(CheckpointError, match="in one subtask and"):
        joined(
            world,
            [
                (descriptor, lambda state, written=written: state.update(written))
                for descriptor, written in (one, other)
            ],
        )
