"""Routers: who gets what, in which order, in buffers of which size."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import ArgumentError
from penstock.graph.deployment import ResultEdge
from penstock.graph.key_groups import key_group_of, key_group_range
from penstock.graph.partitioning import Custom, Hash
from penstock.runtime.network.buffers import decode
from penstock.runtime.network.messages import DATA
from penstock.runtime.network.routing import connected_sources, connected_targets, create_router
from penstock.runtime.records import RowBatch
from penstock.runtime.user_code import RecordFailedError
from tests.builders.examples import examples

GROUPS = 128


class Sent:
    """Keeps the buffers that a router sends."""

    def __init__(self):
        self.buffers = []
        self.most = 2**31 - 1

    def send(self, target, kind, content):
        assert kind == DATA
        payload = content.encode()
        self.buffers.append((target, decode(payload), len(payload)))
        return len(payload)

    def most_records(self, target):
        return self.most

    def shares(self, target):
        return False

    def per_target(self):
        found = {}
        for target, batch, _ in self.buffers:
            found.setdefault(target, []).extend(batch.values)
        return found

    def all_values(self):
        return sorted(value for _, batch, _ in self.buffers for value in batch.values)


def router_of(name, targets, *, partitioning=None, subtask=0, sources=1, buffer_bytes=131_072):
    edge = ResultEdge(0, 0, None, 1, 0, targets, GROUPS, name, local=False)
    sent = Sent()
    router = create_router(edge, partitioning, subtask, sources, buffer_bytes)
    router.bind(sent)
    return router, sent


def flush(router):
    for target in router.targets:
        router.flush(target)


def partitioning_of(name, targets):
    if name == "HASH":
        return Hash(lambda value: value // 3)
    if name == "CUSTOM":
        return Custom(lambda key, count: key % count, lambda value: value * 7)
    return None


@pytest.mark.parametrize(
    ("name", "sources", "targets", "expected"),
    [
        pytest.param("FORWARD", 3, 3, [[0], [1], [2]], id="forward"),
        pytest.param("RESCALE", 2, 4, [[0, 1], [2, 3]], id="rescale up"),
        pytest.param("RESCALE", 4, 2, [[0], [0], [1], [1]], id="rescale down"),
        pytest.param("RESCALE", 2, 3, [[0, 1], [2]], id="rescale 2 to 3"),
        pytest.param("RESCALE", 3, 2, [[0], [0], [1]], id="rescale 3 to 2"),
        pytest.param("HASH", 2, 3, [[0, 1, 2]] * 2, id="hash"),
        pytest.param("GLOBAL", 2, 3, [[0, 1, 2]] * 2, id="global"),
    ],
)
def test_which_subtasks_are_connected(name, sources, targets, expected):
    assert [connected_targets(name, s, sources, targets) for s in range(sources)] == expected


@given(
    st.sampled_from(["RESCALE", "HASH", "REBALANCE", "BROADCAST"]),
    st.integers(1, 9),
    st.integers(1, 9),
)
def test_both_ends_agree_on_their_channels_and_no_target_is_left_out(name, sources, targets):
    from_senders = {
        (s, t) for s in range(sources) for t in connected_targets(name, s, sources, targets)
    }
    from_receivers = {
        (s, t) for t in range(targets) for s in connected_sources(name, t, sources, targets)
    }
    assert from_senders == from_receivers
    assert {t for _, t in from_senders} == set(range(targets))
    assert {s for s, _ in from_senders} == set(range(sources))


@pytest.mark.parametrize(
    ("name", "subtask", "expected"),
    [
        pytest.param("FORWARD", 2, {2: [0, 1, 2, 3, 4, 5]}, id="forward"),
        pytest.param("GLOBAL", 1, {0: [0, 1, 2, 3, 4, 5]}, id="global"),
        pytest.param("REBALANCE", 0, {0: [0, 3], 1: [1, 4], 2: [2, 5]}, id="rebalance"),
        pytest.param(
            "REBALANCE", 1, {1: [0, 3], 2: [1, 4], 0: [2, 5]}, id="rebalance, next sender"
        ),
        pytest.param("RESCALE", 1, {1: [0, 1, 2, 3, 4, 5]}, id="rescale, one target each"),
        pytest.param("BROADCAST", 0, {n: [0, 1, 2, 3, 4, 5] for n in range(3)}, id="broadcast"),
        pytest.param("CUSTOM", 0, {0: [0, 3], 1: [1, 4], 2: [2, 5]}, id="custom"),
    ],
)
def test_who_gets_what(name, subtask, expected):
    router, sent = router_of(
        name, 3, partitioning=partitioning_of(name, 3), subtask=subtask, sources=3
    )
    router.route(RowBatch([0, 1, 2, 3]))
    router.route(RowBatch([4, 5]))
    flush(router)
    assert sent.per_target() == expected


def test_hash_sends_each_record_with_its_key_to_the_owner_of_the_key_group():
    router, sent = router_of("HASH", 4, partitioning=Hash(lambda value: f"key-{value % 50}"))
    router.route(RowBatch(list(range(500)), list(range(500))))
    flush(router)
    assert sent.all_values() == list(range(500))
    for target, batch, _ in sent.buffers:
        assert batch.keys == [f"key-{value % 50}" for value in batch.values]
        assert batch.timestamps == batch.values
        groups = {key_group_of(key, GROUPS) for key in batch.keys}
        assert groups <= set(key_group_range(target, 4, GROUPS))


def test_hash_with_one_target_still_carries_the_keys():
    router, sent = router_of("HASH", 1, partitioning=Hash(lambda value: value % 2))
    router.route(RowBatch([1, 2, 3]))
    flush(router)
    assert [(target, batch.keys) for target, batch, _ in sent.buffers] == [(0, [1, 0, 1])]


NAMES = ["FORWARD", "GLOBAL", "REBALANCE", "RESCALE", "SHUFFLE", "BROADCAST", "HASH", "CUSTOM"]


@settings(max_examples=examples(60))
@given(
    st.sampled_from(NAMES),
    st.integers(1, 5),
    st.lists(st.integers(0, 40), max_size=12),
    st.sampled_from([64, 400, 131_072]),
    st.booleans(),
)
def test_every_record_arrives_once_in_order_with_its_timestamp(name, targets, sizes, limit, timed):
    router, sent = router_of(
        name,
        targets,
        partitioning=partitioning_of(name, targets),
        sources=targets,
        buffer_bytes=limit,
    )
    number = 0
    for size in sizes:
        values = list(range(number, number + size))
        number += size
        if values:
            router.route(RowBatch(values, [value * 10 for value in values] if timed else None))
    flush(router)
    copies = targets if name == "BROADCAST" else 1
    assert sent.all_values() == sorted(list(range(number)) * copies)
    assert all(values == sorted(values) for values in sent.per_target().values())
    for _, batch, _ in sent.buffers:
        assert batch.timestamps == ([value * 10 for value in batch.values] if timed else None)
    flush(router)
    assert sent.all_values() == sorted(list(range(number)) * copies)  # nothing is sent twice


def test_buffers_are_bounded_however_much_an_operator_emits_at_once():
    router, sent = router_of("FORWARD", 1, buffer_bytes=10_000)
    router.route(RowBatch([f"{n:0100}" for n in range(20_000)]))
    flush(router)
    assert [value for _, batch, _ in sent.buffers for value in batch.values] == [
        f"{n:0100}" for n in range(20_000)
    ]
    sizes = [size for _, _, size in sent.buffers[1:]]  # the first one teaches the size of a record
    assert max(sizes) < 2 * 10_000
    assert min(sizes[:-1]) > 5_000


def test_small_records_are_bounded_by_their_number():
    router, sent = router_of("FORWARD", 1, buffer_bytes=1 << 30)
    router.route(RowBatch([None] * 100_000))
    flush(router)
    assert sum(len(batch) for _, batch, _ in sent.buffers) == 100_000
    assert max(len(batch) for _, batch, _ in sent.buffers) < 2 * 16_384


def test_shuffle_reaches_every_target():
    router, sent = router_of("SHUFFLE", 3)
    router.route(RowBatch(list(range(300))))
    flush(router)
    assert set(sent.per_target()) == {0, 1, 2}


@pytest.mark.parametrize("choice", [3, -1, "1", None, 1.0], ids=repr)
def test_a_partitioner_must_return_a_number_of_a_partition(choice):
    custom = Custom(lambda key, count: choice, lambda value: value)
    router, _ = router_of("CUSTOM", 3, partitioning=custom)
    with pytest.raises(ArgumentError, match="the partitioner returned") as caught:
        router.route(RowBatch([1]))
    assert "0 to 2" in caught.value.hint


@pytest.mark.parametrize("targets", [1, 2])
def test_dictionary_key_is_rejected_with_its_record(targets):
    partitioning = Hash(lambda value: {"a": value} if value == 2 else value)
    router, _ = router_of("HASH", targets, partitioning=partitioning)
    with pytest.raises(RecordFailedError) as caught:
        router.route(RowBatch([1, 2, 3]))
    assert caught.value.record == 2
    assert "keys of type dict are not supported" in str(caught.value.cause)


@pytest.mark.parametrize("targets", [1, 2])
def test_list_keys_are_compared_by_content(targets):
    partitioning = Hash(lambda value: [value % 3] if value % 2 else value)
    router, sent = router_of("HASH", targets, partitioning=partitioning)
    router.route(RowBatch(list(range(12))))
    flush(router)
    places = {}
    for target, batches in sent.per_target().items():
        for value in batches:
            key = (value % 3,) if value % 2 else value
            assert places.setdefault(key, target) == target
    assert len(places) == 9


@pytest.mark.parametrize("key", [["a", float("nan")], ("a", [float("nan")])], ids=repr)
@pytest.mark.parametrize("targets", [1, 2])
def test_nan_inside_of_a_list_is_refused(targets, key):
    router, _ = router_of("HASH", targets, partitioning=Hash(lambda value: key))
    with pytest.raises(ArgumentError, match="NaN is not allowed as a key"):
        router.route(RowBatch([1]))


def raise_stop(value):
    if value == 2:
        raise StopIteration
    return value


@pytest.mark.parametrize(
    ("selector", "kind"),
    [
        pytest.param(lambda value: {1: "a"}[value], KeyError, id="raises"),
        pytest.param(raise_stop, RuntimeError, id="StopIteration must not end the batch"),
    ],
)
def test_error_of_a_key_selector_names_the_record(selector, kind):
    router, sent = router_of("HASH", 2, partitioning=Hash(selector))
    with pytest.raises(RecordFailedError) as caught:
        router.route(RowBatch([1, 2, 3]))
    assert caught.value.record == 2
    assert isinstance(caught.value.cause, kind)
    assert sent.buffers == []


class Selector:
    def __init__(self):
        self.calls = []

    def open(self, context):
        self.calls.append(("open", context))

    def close(self):
        self.calls.append("close")

    def get_key(self, value):
        return value

    def partition(self, key, count):
        return key % count


@pytest.mark.parametrize("name", ["HASH", "CUSTOM"])
def test_selectors_are_opened_and_closed(name):
    selector = Selector()
    partitioning = Hash(selector) if name == "HASH" else Custom(selector, selector)
    router, _ = router_of(name, 2, partitioning=partitioning)
    router.open("context")
    router.route(RowBatch([1]))
    router.close()
    times = 1 if name == "HASH" else 2
    assert selector.calls == [("open", "context")] * times + ["close"] * times


@pytest.mark.parametrize("targets", [1, 3])
@pytest.mark.parametrize(
    "keys",
    [
        pytest.param([1.5, float("nan")], id="float"),
        pytest.param(["a", None, float("nan")], id="other types first"),
        pytest.param([Decimal("NaN")], id="decimal"),
        pytest.param([("a", 1.5), ("a", float("nan"))], id="tuple"),
        pytest.param([("a", 1.5), 7, ("a", float("nan"))], id="not all are tuples"),
    ],
)
def test_a_key_that_is_not_equal_to_itself_is_refused(targets, keys):
    router, sent = router_of("HASH", targets, partitioning=Hash(lambda value: keys[value]))
    with pytest.raises(ArgumentError, match=r"NaN is not allowed as a key: .*(nan|NaN)"):
        router.route(RowBatch(list(range(len(keys))), None, None))
    assert not sent.buffers


@pytest.mark.parametrize("targets", [1, 3])
def test_keys_that_are_equal_meet_whatever_their_type(targets):
    keys = [1, True, 1.0, Decimal(1), 0, False, -0.0, None, ("a", 1), ("a", True)]
    router, sent = router_of("HASH", targets, partitioning=Hash(lambda value: keys[value]))
    router.route(RowBatch(list(range(len(keys))), None, None))
    flush(router)
    places = {value: target for target, values in sent.per_target().items() for value in values}
    for one in range(len(keys)):
        for other in range(len(keys)):
            assert keys[one] != keys[other] or places[one] == places[other]


class Handed:
    """A writer whose target 0 lives in the same slot; the other one gets bytes."""

    def __init__(self):
        self.neighbour, self.remote = [], []

    def send(self, target, kind, content):
        if self.shares(target):
            self.neighbour.append(content)
            return 0
        payload = content.encode()
        self.remote.append(decode(payload))
        return len(payload)

    def most_records(self, target):
        return 2**31 - 1

    def shares(self, target):
        return target == 0


def test_record_modified_by_a_local_consumer_is_unchanged_for_other_targets():
    edge = ResultEdge(0, 0, None, 1, 0, 2, GROUPS, "BROADCAST", local=False)
    router, handed = create_router(edge, None, 0, 1, 131_072), Handed()
    router.bind(handed)
    router.route(RowBatch([[1], [2]]))
    router.flush(0)
    handed.neighbour[0].values[0].append("changed")
    router.flush(1)
    assert handed.remote[0].values == [[1], [2]]


def test_a_neighbour_gets_batches_as_they_are_and_teaches_no_size():
    edge = ResultEdge(0, 0, None, 1, 0, 1, GROUPS, "FORWARD", local=False)
    router, handed = create_router(edge, None, 0, 1, 131_072), Handed()
    router.bind(handed)
    record = object()  # could not be pickled if it had to be
    router.route(RowBatch([record] * 1500))
    assert [len(batch) for batch in handed.neighbour] == [1500]
    assert handed.neighbour[0].values[0] is record
    assert (router.snapshot(), router.bytes_out, router.waiting) == ((1024,), 0, False)


def test_a_target_that_wants_few_records_gets_small_buffers_but_what_is_emitted_at_once_is_not_cut():
    """All of it is in flight anyway: a window that fires would become a thousand buffers."""
    router, sent = router_of("FORWARD", 1)
    sent.most = 4
    for number in range(10):
        router.route(RowBatch([number]))
    assert [len(batch) for _, batch, _ in sent.buffers] == [4, 4]
    assert (router.records_out, router.waiting) == (10, True)
    router.route(RowBatch(list(range(1000))))
    assert [len(batch) for _, batch, _ in sent.buffers] == [4, 4, 1002]
    assert (router.records_out, router.waiting) == (1010, False)
