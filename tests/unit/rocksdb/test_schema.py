"""A restored state that the program reads as something else is refused, or carried over where nothing can be misread."""

from __future__ import annotations

import pytest

from penstock.common import Types
from penstock.common.state import (
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)
from penstock.common.time import Duration
from penstock.errors import CheckpointError
from penstock.runtime.state.schema import StateSchema, difference

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
def test_what_could_be_misread_is_refused(world, old, new, reason):
    with pytest.raises(CheckpointError, match="state 's' of operator 'counter'") as caught:
        restored(
            world, old, new, lambda state: getattr(state, "update", getattr(state, "add", None))(1)
        )
    assert caught.value.detail == reason
    assert StateSchema.of(old).text in caught.value.message
    assert StateSchema.of(new).text in caught.value.message
    assert "another name" in caught.value.hint


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
def test_what_cannot_be_misread_is_carried_over(world, old, new):
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
