"""The driver's end of the connections to slots, with real sockets and real processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator

import pytest
import zmq

from penstock.graph.stage import NetworkSettings, StageKeys
from penstock.runtime.network import sockets
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
        self.endpoint = endpoint or DriverEndpoint(HOST)
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
    driver = Driver(DriverEndpoint("localhost", "0.0.0.0"))
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
from penstock.graph.stage import NetworkSettings, StageKeys
from penstock.runtime.network import sockets
from penstock.runtime.network.transport import Network
address, public, secret, busy, timeout_ms = sys.argv[1:]
sockets.DRIVER_TIMEOUT_MS = int(timeout_ms)
network = Network(0, 1, StageKeys(public.encode(), secret.encode()), NetworkSettings(), "127.0.0.1")
network.connect_driver(address, 0)
network.report("here")
end = time.monotonic() + float(busy)
while time.monotonic() < end:  # never lets go of the interpreter for long, and never pumps
    sum(range(1000))
network.report("still here")
while True:
    network.wait(1)
    network.pump()
"""


@pytest.fixture
def process(driver: Driver) -> Iterator[Callable[[float], subprocess.Popen[bytes]]]:
    started: list[subprocess.Popen[bytes]] = []

    def start(busy_s: float) -> subprocess.Popen[bytes]:
        keys = make_keys()
        address = driver.endpoint.open_stage("one", keys)
        arguments = [address, keys.public, keys.secret, str(busy_s), str(sockets.DRIVER_TIMEOUT_MS)]
        started.append(subprocess.Popen([sys.executable, "-c", SLOT, *arguments]))
        driver.expect("one", 0, "here")
        return started[-1]

    yield start
    for each in started:
        each.kill()
        each.wait()


def test_the_end_of_a_killed_process_is_noticed_before_its_signs_of_life_are_missed(
    driver: Driver, process, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sockets, "DRIVER_TIMEOUT_MS", 3_600_000)
    process(0).kill()
    driver.expect("one", 0, ConnectionLost())


def test_connections_to_the_driver_are_lost_after_three_seconds_without_a_sign_of_life(
    driver: Driver,
) -> None:
    keys = make_keys()
    network = driver.slot("one", 0, keys, driver.endpoint.open_stage("one", keys))
    driver.expect("one", 0, ("one", 0))
    assert network._driver is not None
    for socket in (driver.endpoint._stages["one"].socket, network._driver):
        assert socket.getsockopt(zmq.HEARTBEAT_IVL) == 1000
        assert socket.getsockopt(zmq.HEARTBEAT_TIMEOUT) == 3000
        assert socket.getsockopt(zmq.HEARTBEAT_TTL) == 3000


def test_a_frozen_process_is_noticed(driver: Driver, process) -> None:
    frozen = process(0)
    driver.expect("one", 0, "still here")
    os.kill(frozen.pid, signal.SIGSTOP)
    driver.expect("one", 0, ConnectionLost())


@pytest.mark.full  # it takes twice the time after which a process is taken for dead
def test_a_process_that_is_busy_for_longer_than_that_is_not_taken_for_dead(
    driver: Driver, process
) -> None:
    process(6)
    driver.expect("one", 0, "still here")
    assert [arrival.message for arrival in driver.arrived] == ["here", "still here"]


DRIVER = """
import sys
from penstock.graph.stage import StageKeys
from penstock.runtime.network.driver_endpoint import DriverEndpoint
public, secret = sys.argv[1:]
endpoint = DriverEndpoint("127.0.0.1")
print(endpoint.open_stage("one", StageKeys(public.encode(), secret.encode())), flush=True)
while True:
    for arrival in endpoint.poll(1):
        endpoint.send(arrival.stage, arrival.slot, "welcome")
"""


def test_a_slot_whose_driver_is_frozen_ends() -> None:
    keys = make_keys()
    command = [sys.executable, "-c", DRIVER, keys.public, keys.secret]
    network = Network(0, 1, keys, NetworkSettings(), HOST)
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as frozen:
        assert frozen.stdout is not None
        network.connect_driver(frozen.stdout.readline().strip(), 0)
        network.report("here")
        while not network.commands():
            network.wait(1)
            network.pump()
        os.kill(frozen.pid, signal.SIGSTOP)
        try:
            with pytest.raises(TransportError, match="lost the connection to the driver"):
                wait_until(lambda: network.pump() and False)
        finally:
            frozen.kill()
    network.close()
