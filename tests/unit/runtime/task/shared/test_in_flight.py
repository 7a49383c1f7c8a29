"""What was in the channels of subtasks comes back: each record once, in the order of its channel, at any parallelism."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import CheckpointError
from penstock.graph.key_groups import key_group_of, subtask_of
from penstock.graph.partitioning import Custom
from penstock.runtime.network.buffers import decode
from penstock.runtime.network.channels import BufferOrEvent
from penstock.runtime.network.messages import DATA
from penstock.runtime.network.routing import connected_sources, connected_targets, create_router
from penstock.runtime.records import RowBatch
from penstock.runtime.task.shared.in_flight import Capture, InFlight, RestoredInFlight
from tests.builders import pipes
from tests.builders.examples import examples


def vertices(partitioning, sources, targets):
    """A vertex that sends, and one that receives."""
    edge = pipes.edge(1, partitioning, targets=targets)
    gate = pipes.gate(0, partitioning, sources=sources)
    return (
        pipes.vertex(0, "sends", parallelism=sources, edges=[edge]),
        pipes.vertex(1, "receives", parallelism=targets, gates=[gate]),
    )


def data(values, keyed=False):
    return BufferOrEvent(
        DATA, RowBatch(list(values), None, [v[0] for v in values] if keyed else None), 0
    )


class Exchange:
    """One exchange: records (former sender, former receiver, number) in its channels, then a restore with others at its ends."""

    def __init__(self, partitioning, sources, targets):
        self.partitioning = partitioning
        sender, receiver = vertices(partitioning, sources, targets)
        self.captures = {
            "v0": [Capture(sender) for _ in range(sources)],
            "v1": [Capture(receiver) for _ in range(targets)],
        }

    def hold(self, source, target, at_receiver, at_sender):
        keyed = self.partitioning == "HASH"
        receiver, sender = self.captures["v1"][target], self.captures["v0"][source]
        receiver.add_inputs((0, source), [data(each, keyed) for each in at_receiver])
        sender.add_outputs(0, target, [data(each, keyed) for each in at_sender])

    def restore(self, sources, targets, partitioning=None):
        """Return what each receiver gets, in order of arrival: what it finds first, then sender after sender."""
        partitioning = partitioning or self.partitioning
        sender, receiver = vertices(partitioning, sources, targets)
        handles = {
            name: [None if (found := each.result()) is None else found.dump() for each in captures]
            for name, captures in self.captures.items()
        }
        got = [[] for _ in range(targets)]
        for index, into in enumerate(got):
            connected = connected_sources(partitioning, index, sources, targets)
            for (_, source), payloads in restored(receiver, index, handles).inputs():
                assert source in connected
                for payload in payloads:
                    into += decode(payload).values
        for index in range(sources):
            custom = Custom(lambda key, partitions: key % partitions, lambda value: value[0])
            router = create_router(sender.edges[0], custom, index, sources, 1 << 16)
            router.bind(Sent(got))
            for resent in restored(sender, index, handles).outputs():
                batch = decode(resent.payload)
                if resent.target is None:
                    router.route(batch)
                    for target in range(targets):
                        router.flush(target)
                else:
                    got[resent.target] += batch.values
        return got


class Sent:
    def __init__(self, got):
        self.got = got

    def send(self, target, kind, batch):
        self.got[target] += batch.values
        return 0

    def most_records(self, target):
        return 2**31 - 1

    def shares(self, target):
        return False


def restored(vertex, index, handles):
    return RestoredInFlight(vertex, index, handles, lambda handle: handle)


def test_nothing_in_flight_is_nothing_to_keep():
    sender, _ = vertices("HASH", 1, 1)
    capture = Capture(sender)
    capture.add_inputs((0, 0), [])
    assert capture.result() is None


def test_in_flight_data_survives_serialization():
    found = InFlight({0: "a"}, {1: ("b", 0)}, {(0, 3): [b"xy"]}, {(1, 2): [b"z"]})
    assert InFlight.load(found.dump()) == found
    assert found.size == 3


OWNERS = {
    "HASH": lambda key, parallelism: subtask_of(key_group_of(key, 128), parallelism, 128),
    "CUSTOM": lambda key, parallelism: key % parallelism,
}
SIZES = st.integers(1, 4)
PARTITIONINGS = st.sampled_from(
    ["HASH", "REBALANCE", "RESCALE", "SHUFFLE", "GLOBAL", "FORWARD", "BROADCAST", "CUSTOM"]
)


@settings(max_examples=examples(300), deadline=None)
@given(
    partitioning=PARTITIONINGS,
    before=st.tuples(SIZES, SIZES),
    after=st.tuples(SIZES, SIZES),
    content=st.data(),
)
def test_each_record_comes_back_once_in_the_order_of_its_channel(
    partitioning, before, after, content
):
    if partitioning == "FORWARD":
        before, after = (before[0],) * 2, (after[0],) * 2
    exchange = Exchange(partitioning, *before)
    held = {}
    numbers = iter(range(1000))
    for source in range(before[0]):
        for target in connected_targets(partitioning, source, *before):
            if partitioning == "GLOBAL" and target:
                continue
            batches = [
                [
                    (key, source, target, next(numbers))
                    for key in range(20)
                    if partitioning not in OWNERS or OWNERS[partitioning](key, before[1]) == target
                ][: content.draw(st.integers(1, 3))]
                for _ in range(content.draw(st.integers(0, 4)))
            ]
            batches = [batch for batch in batches if batch]
            cut = content.draw(st.integers(0, len(batches)))
            exchange.hold(source, target, batches[:cut], batches[cut:])
            held[source, target] = [record for batch in batches for record in batch]
    got = exchange.restore(*after)
    everything = [record for records in held.values() for record in records]
    if partitioning == "BROADCAST":
        for target, records in enumerate(got):
            lacked = [record for record in everything if record[2] == target % before[1]]
            assert sorted(records) == sorted(lacked)
    else:
        assert sorted(record for records in got for record in records) == sorted(everything)
    for target, records in enumerate(got):
        for channel in held:
            order = [record[3] for record in records if record[1:3] == channel]
            assert order == sorted(order)
        for record in records:
            if partitioning in OWNERS:
                assert OWNERS[partitioning](record[0], after[1]) == target
            if before == after and partitioning != "BROADCAST":
                assert record[2] == target


def test_a_forward_exchange_may_become_another_when_one_end_is_rescaled():
    exchange = Exchange("FORWARD", 2, 2)
    exchange.hold(0, 0, [[("a", 0, 0, 1)]], [[("b", 0, 0, 2)]])
    exchange.hold(1, 1, [[("c", 1, 1, 3)]], [])
    got = exchange.restore(2, 3, "REBALANCE")
    assert sorted(record[0] for records in got for record in records) == ["a", "b", "c"]


@pytest.mark.parametrize("end", ["sends", "receives"])
def test_records_of_an_exchange_that_is_gone_are_refused(end):
    sender, receiver = vertices("HASH", 1, 1)
    vertex = sender if end == "sends" else receiver
    capture = Capture(vertex)
    capture.add_outputs(0, 0, [data([1])] if end == "sends" else [])
    capture.add_inputs((0, 0), [data([1])] if end == "receives" else [])
    handles = {vertex.id: [capture.result().dump()], "v0": [None], "v1": [None]}
    handles[vertex.id] = [capture.result().dump()]
    changed = replace(
        vertex,
        gates=tuple(replace(gate, source_id="v7") for gate in vertex.gates),
        edges=tuple(replace(edge, target_id="v7") for edge in vertex.edges),
    )
    handles["v7"] = [None]
    found = restored(changed, 0, handles)
    with pytest.raises(CheckpointError, match="on an exchange that the job does not have"):
        list(found.outputs() if end == "sends" else found.inputs())


def twice_connected(sources, targets):
    """Two vertices with two exchanges between them."""
    edges = [
        pipes.edge(1, "REBALANCE", index=number, gate=number, targets=targets) for number in (0, 1)
    ]
    gates = [pipes.gate(0, "REBALANCE", number=number, sources=sources) for number in (0, 1)]
    return (
        pipes.vertex(0, "sends", parallelism=sources, edges=edges),
        pipes.vertex(1, "receives", parallelism=targets, gates=gates),
    )


@pytest.fixture
def two_exchanges():
    """What one subtask at each end of two exchanges had in flight."""
    sender, receiver = twice_connected(1, 1)
    sending, receiving = Capture(sender), Capture(receiver)
    for number, name in enumerate("ab"):
        receiving.add_inputs((number, 0), [data([f"{name} received"])])
        sending.add_outputs(number, 0, [data([f"{name} sent"])])
    return {"v0": [sending.result().dump()], "v1": [receiving.result().dump()]}


def test_two_exchanges_between_the_same_vertices_get_back_each_its_own_records(two_exchanges):
    sender, receiver = twice_connected(1, 1)
    inputs = [
        (channel, [decode(payload).values for payload in payloads])
        for channel, payloads in restored(receiver, 0, two_exchanges).inputs()
    ]
    assert inputs == [((0, 0), [["a received"]]), ((1, 0), [["b received"]])]
    outputs = [
        (resent.edge, resent.target, decode(resent.payload).values)
        for resent in restored(sender, 0, two_exchanges).outputs()
    ]
    assert outputs == [(0, 0, ["a sent"]), (1, 0, ["b sent"])]


def test_two_exchanges_that_are_rescaled_get_back_each_its_own_records(two_exchanges):
    sender, receiver = twice_connected(2, 1)
    inputs = [
        (channel, [value for payload in payloads for value in decode(payload).values])
        for channel, payloads in restored(receiver, 0, two_exchanges).inputs()
    ]
    assert inputs == [((0, 0), ["a received", "a sent"]), ((1, 0), ["b received", "b sent"])]
    assert list(restored(sender, 0, two_exchanges).outputs()) == []
