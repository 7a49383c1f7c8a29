"""The driver's end of the connections to slots, with real sockets and real processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import zmq

from penstock.graph.stage import HeartbeatSettings, NetworkSettings, StageKeys
from penstock.runtime.network.authentication import identify, make_keys
from penstock.runtime.network.driver_endpoint import ConnectionLost, DriverEndpoint, SlotMessage
from penstock.runtime.network.frames import TransportError
from penstock.runtime.network.sockets import Connections
from penstock.runtime.network.transport import Network
from tests.builders.waiting import wait_until
from tests.unit.runtime.network.slots import FOREVER_S, HOST, TIMEOUT_S, Handshakes


class Driver:
    """An endpoint that keeps what arrives, and the networks that are connected to it."""

    def __init__(self, endpoint: DriverEndpoint | None = None) -> None:
        self.endpoint = endpoint or DriverEndpoint(HOST, HeartbeatSettings())
        self.arrived: list[SlotMessage] = []
        self.networks: list[Network] = []

    def slot(self, stage: str, slot: int, keys: StageKeys, address: str) -> Network:
        network = Network(slot, 1 + slot, keys, NetworkSettings(), HOST)
        network.connect_driver(address, slot)
        network.report((stage, slot))
        self.networks.append(network)
        return network

    def until(self, condition: Callable[[], object]) -> None:
        deadline = time.monotonic() + TIMEOUT_S
        while not condition():
            assert time.monotonic() < deadline, f"it did not become so; arrived: {self.arrived}"
            self.arrived += self.endpoint.poll(0.001)
            for network in self.networks:
                network.pump()

    def expect(self, stage: str, slot: int, message: object) -> None:
        self.until(lambda: SlotMessage(stage, slot, message) in self.arrived)

    def close(self) -> None:
        for network in self.networks:
            network.close()
        self.endpoint.close()


@pytest.fixture
def driver() -> Iterator[Driver]:
    made = Driver()
    yield made
    made.close()


def test_slots_of_several_stages_exchange_messages_with_the_driver(driver: Driver) -> None:
    slots = {}
    for stage in ("one", "two"):
        keys = make_keys()
        address = driver.endpoint.open_stage(stage, keys)
        for slot in range(2):
            slots[stage, slot] = driver.slot(stage, slot, keys, address)
    for stage, slot in slots:
        driver.expect(stage, slot, (stage, slot))
        for number in range(100):
            driver.endpoint.send(stage, slot, (stage, slot, number))
    for (stage, slot), network in slots.items():
        reported: list[object] = []

        def all_reported(network: Network = network, reported: list[object] = reported) -> bool:
            reported += network.commands()
            return len(reported) == 100

        driver.until(all_reported)
        assert reported == [(stage, slot, number) for number in range(100)]


def test_a_driver_may_be_reached_at_another_address_than_it_listens_at() -> None:
    driver = Driver(DriverEndpoint("localhost", HeartbeatSettings(), "0.0.0.0"))
    try:
        keys = make_keys()
        address = driver.endpoint.open_stage("one", keys)
        assert address.startswith("tcp://localhost:")
        driver.slot("one", 0, keys, address)
        driver.expect("one", 0, ("one", 0))
    finally:
        driver.close()


def test_reports_of_several_threads_wake_the_driver(driver: Driver) -> None:
    keys = make_keys()
    network = driver.slot("one", 0, keys, driver.endpoint.open_stage("one", keys))
    driver.expect("one", 0, ("one", 0))
    threads = [threading.Thread(target=network.report, args=[number]) for number in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    network.wait(FOREVER_S)  # each of them ends it
    driver.until(lambda: len(driver.arrived) == 21)
    assert sorted(arrival.message for arrival in driver.arrived[1:]) == [*range(20)]


def test_waiting_for_reports_is_ended_from_another_thread(driver: Driver) -> None:
    timer = threading.Timer(0.05, driver.endpoint.wake)
    timer.start()
    assert driver.endpoint.poll(FOREVER_S) == []
    timer.join()


def test_the_last_report_arrives_although_the_slot_is_closed_at_once(driver: Driver) -> None:
    keys = make_keys()
    network = driver.slot("one", 0, keys, driver.endpoint.open_stage("one", keys))
    driver.expect("one", 0, ("one", 0))
    network.report("x" * 1_000_000)
    network.close()
    driver.networks.clear()
    driver.expect("one", 0, "x" * 1_000_000)
    driver.expect("one", 0, ConnectionLost())


def test_last_report_of_a_slot_arrives_before_its_connection_loss(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = make_keys()
    network = driver.slot("one", 0, keys, driver.endpoint.open_stage("one", keys))
    driver.expect("one", 0, ("one", 0))
    driver.arrived.clear()
    look = Connections.closed

    def closed(connections: Connections) -> list[int]:
        """The slot leaves while the driver asks who is gone."""
        known = look(connections)
        if driver.networks:
            network.report("why")
            network.close()
            driver.networks.clear()
            assert connections.monitor.poll(TIMEOUT_S * 1000)  # it knows of the end
        return known + look(connections)

    monkeypatch.setattr(Connections, "closed", closed)
    driver.expect("one", 0, ConnectionLost())
    assert [arrival.message for arrival in driver.arrived] == ["why", ConnectionLost()]


def test_a_slot_ends_when_the_driver_closes_its_stage(driver: Driver) -> None:
    keys = make_keys()
    driver.slot("one", 0, keys, driver.endpoint.open_stage("one", keys))
    driver.expect("one", 0, ("one", 0))
    driver.endpoint.close_stage("one")
    with pytest.raises(TransportError, match="lost the connection to the driver"):
        driver.until(lambda: False)
    driver.endpoint.send("one", 0, "to no slot")


def test_commands_that_were_sent_before_the_stage_was_closed_are_taken_first(
    driver: Driver,
) -> None:
    keys = make_keys()
    network = driver.slot("one", 0, keys, driver.endpoint.open_stage("one", keys))
    driver.expect("one", 0, ("one", 0))
    connections = network._driver_connections
    assert connections is not None
    driver.until(lambda: connections._made)
    driver.networks.clear()
    driver.endpoint.send("one", 0, "leave")
    driver.endpoint.close_stage("one")
    driver.until(lambda: connections.monitor.poll(0))  # the end of the connection has come
    network.pump()
    network.pump()  # the command was not requested yet
    assert network.commands() == ["leave"]
    with pytest.raises(TransportError, match="lost the connection to the driver"):
        network.pump()
    network.close()


@pytest.mark.parametrize("stranger", ["plain", "other keys", "another stage's keys"])
def test_a_stranger_is_refused_and_does_no_harm(driver: Driver, stranger: str) -> None:
    keys, others = make_keys(), make_keys()
    address = driver.endpoint.open_stage("one", keys)
    driver.endpoint.open_stage("two", others)
    with zmq.Context() as context:
        socket = context.socket(zmq.DEALER)
        socket.setsockopt(zmq.LINGER, 0)
        socket.setsockopt(zmq.ROUTING_ID, b"0")
        if stranger != "plain":
            identify(socket, others if stranger.startswith("another") else make_keys())
            socket.setsockopt(
                zmq.CURVE_SERVERKEY, keys.public
            )  # the most that can be known of a server
        handshakes = Handshakes(socket)
        socket.connect(address)
        socket.send(b"not even a pickle")
        driver.until(handshakes.look)
        assert (handshakes.accepted, handshakes.refused > 0) == (0, True)
        driver.slot("one", 0, keys, address)
        driver.expect("one", 0, ("one", 0))
        context.destroy()
    assert driver.arrived == [SlotMessage("one", 0, ("one", 0))]


SLOT = """
import sys, time
from penstock.graph.stage import HeartbeatSettings, NetworkSettings, StageKeys
from penstock.runtime.network.transport import Network
address, public, secret, busy, interval_ms, timeout_ms = sys.argv[1:]
settings = NetworkSettings(heartbeat=HeartbeatSettings(int(interval_ms), int(timeout_ms)))
network = Network(0, 1, StageKeys(public.encode(), secret.encode()), settings, "127.0.0.1")
network.connect_driver(address, 0)
network.report("here")
end = time.monotonic() + float(busy)
while time.monotonic() < end:  # never lets go of the interpreter for long, and never pumps
    sum(range(1000))
network.report("still here")
while True:
    network.wait(1)
    network.pump()
    for command in network.commands():
        network.report(command)
"""

SHORT = HeartbeatSettings(interval_ms=1000, timeout_ms=3000)
ENDLESS = HeartbeatSettings(interval_ms=1000, timeout_ms=3_600_000)


class SlotProcess:
    """A slot in a process of its own, and its driver."""

    def __init__(self, heartbeat: HeartbeatSettings, busy_s: float = 0.0) -> None:
        keys = make_keys()
        self.driver = Driver(DriverEndpoint(HOST, heartbeat))
        address = self.driver.endpoint.open_stage("one", keys)
        beats = [str(heartbeat.interval_ms), str(heartbeat.timeout_ms)]
        self.process = subprocess.Popen(
            [sys.executable, "-c", SLOT, address, keys.public, keys.secret, str(busy_s), *beats]
        )
        self.driver.expect("one", 0, "here")

    def pause(self) -> None:
        self.driver.expect("one", 0, "still here")
        os.kill(self.process.pid, signal.SIGSTOP)

    def resume(self) -> None:
        os.kill(self.process.pid, signal.SIGCONT)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        self.driver.close()


@pytest.fixture
def start() -> Iterator[Callable[..., SlotProcess]]:
    started: list[SlotProcess] = []

    def start(*arguments: Any, **options: Any) -> SlotProcess:
        started.append(SlotProcess(*arguments, **options))
        return started[-1]

    yield start
    for each in started:
        each.close()


def test_a_killed_process_is_noticed_before_its_heartbeats_are_missed(start) -> None:
    slot = start(ENDLESS)
    slot.process.kill()
    slot.driver.expect("one", 0, ConnectionLost())


def test_a_paused_process_is_lost_after_the_heartbeat_timeout_and_not_before(start) -> None:
    """The kept one is silent for as long as two others together, one after the other, take to be lost."""
    short = HeartbeatSettings(interval_ms=500, timeout_ms=2500)
    kept, *others = start(ENDLESS), start(short), start(short)
    kept.pause()
    for other in others:
        other.pause()
        other.driver.expect("one", 0, ConnectionLost())
    kept.resume()
    kept.driver.endpoint.send("one", 0, "are you there?")
    kept.driver.until(lambda: len(kept.driver.arrived) > 2)  # the answer, or that it is lost
    assert [arrival.message for arrival in kept.driver.arrived] == [
        "here",
        "still here",
        "are you there?",
    ]


@pytest.mark.full  # it takes twice the time after which a process is taken for dead
def test_a_process_that_is_busy_for_longer_than_that_is_not_taken_for_dead(start) -> None:
    slot = start(SHORT, busy_s=6)
    slot.driver.expect("one", 0, "still here")
    assert [arrival.message for arrival in slot.driver.arrived] == ["here", "still here"]


def test_all_connections_of_a_slot_have_the_heartbeats_that_are_set() -> None:
    heartbeat = HeartbeatSettings(interval_ms=7_000, timeout_ms=40_000)
    driver = Driver(DriverEndpoint(HOST, heartbeat))
    try:
        keys = make_keys()
        address = driver.endpoint.open_stage("one", keys)
        network = Network(1, 2, keys, NetworkSettings(heartbeat=heartbeat), HOST)
        driver.networks.append(network)
        network.connect([network.address, network.address])
        network.connect_driver(address, 1)
        found = {
            "driver": driver.endpoint._stages["one"].socket,
            "slot to driver": network._driver,
            "from slots": network._inbox,
            "to slots": network._peers[0]._socket,
        }
        assert {name: beats_of(socket) for name, socket in found.items()} == dict.fromkeys(
            found, heartbeat
        )
    finally:
        driver.close()


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (HeartbeatSettings(1000, 3000), HeartbeatSettings(1000, 30_000)),
        (HeartbeatSettings(1000, 60_000), HeartbeatSettings(1000, 60_000)),
    ],
    ids=["shorter", "longer"],
)
def test_slots_wait_for_each_other_at_least_half_a_minute(given, expected) -> None:
    network = Network(0, 1, make_keys(), NetworkSettings(heartbeat=given), HOST)
    assert beats_of(network._inbox) == expected
    network.close()


def test_a_heartbeat_timeout_may_be_longer_than_zeromq_can_say() -> None:
    century_ms = 100 * 366 * 24 * 3_600_000
    network = Network(
        0, 1, make_keys(), NetworkSettings(heartbeat=HeartbeatSettings(1000, century_ms)), HOST
    )
    assert beats_of(network._inbox).timeout_ms > 24 * 24 * 3_600_000
    network.close()


def beats_of(socket: zmq.Socket[bytes]) -> HeartbeatSettings:
    interval, timeout = (
        socket.getsockopt(each) for each in (zmq.HEARTBEAT_IVL, zmq.HEARTBEAT_TIMEOUT)
    )
    assert socket.getsockopt(zmq.HEARTBEAT_TTL) == min(int(timeout), 6_553_500)
    return HeartbeatSettings(int(interval), int(timeout))


DRIVER = """
import sys
from penstock.graph.stage import HeartbeatSettings, StageKeys
from penstock.runtime.network.driver_endpoint import DriverEndpoint
public, secret, interval_ms, timeout_ms = sys.argv[1:]
endpoint = DriverEndpoint("127.0.0.1", HeartbeatSettings(int(interval_ms), int(timeout_ms)))
print(endpoint.open_stage("one", StageKeys(public.encode(), secret.encode())), flush=True)
while True:
    for arrival in endpoint.poll(1):
        endpoint.send(arrival.stage, arrival.slot, "welcome")
"""


def end_of_driver(heartbeat: HeartbeatSettings, sent: signal.Signals) -> None:
    """Connect a slot to a driver in a process of its own, send that a signal, and wait until the slot has noticed."""
    keys = make_keys()
    beats = [str(heartbeat.interval_ms), str(heartbeat.timeout_ms)]
    command = [sys.executable, "-c", DRIVER, keys.public, keys.secret, *beats]
    network = Network(0, 1, keys, NetworkSettings(heartbeat=heartbeat), HOST)
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as driver:
        assert driver.stdout is not None
        try:
            network.connect_driver(driver.stdout.readline().strip(), 0)
            network.report("here")
            while not network.commands():  # they have shaken hands
                network.wait(1)
                network.pump()
            os.kill(driver.pid, sent)
            with pytest.raises(TransportError, match="lost the connection to the driver"):
                wait_until(lambda: network.pump() and False)
        finally:
            driver.kill()
    network.close()


def test_a_slot_whose_driver_is_paused_ends() -> None:
    end_of_driver(SHORT, signal.SIGSTOP)


def test_a_slot_whose_driver_is_killed_ends_before_heartbeats_are_missed() -> None:
    end_of_driver(ENDLESS, signal.SIGKILL)
