"""Jobs that read from a socket, in both modes."""

from __future__ import annotations

import threading

import pytest

from penstock.common import WatermarkStrategy
from penstock.datastream import OutputTag
from penstock.datastream.connectors.socket import SocketSource
from penstock.errors import JobExecutionError
from penstock.testing import MiniCluster
from tests.builders.environments import configured, restarts
from tests.builders.feeding import feeding, sends
from tests.builders.modes import MODES, runs_in
from tests.builders.scripted import collect
from tests.builders.waiting import wait_until

DEAD = OutputTag("dead")
failed: list[str] = []


def environment(mode, **options):
    return configured({"execution.checkpointing.interval": "20 ms", **runs_in(mode), **options}, 2)


def fail_once(line):
    if line == "500" and not failed:
        failed.append(line)
        raise RuntimeError("once")
    return int(line)


def lines(env, address, **options):
    source = SocketSource(*address, **options)
    return env.from_source(source, WatermarkStrategy.no_watermarks(), "socket")


@pytest.mark.parametrize("mode", MODES)
def test_a_job_reads_every_line_and_ends_when_the_server_hangs_up(mode):
    data = b"".join(b"%d\n" % n for n in range(20_000))
    with feeding(sends(data)) as address, MiniCluster():
        found = collect(lines(environment(mode), address).map(int))
    assert sorted(found) == list(range(20_000))


@pytest.mark.ci
@pytest.mark.parametrize("mode", MODES)
def test_a_server_that_breaks_in_the_middle_is_connected_to_again(mode):
    with (
        feeding(*(sends(b"%d\n" % n * 10) for n in range(5))) as address,
        MiniCluster(),
    ):
        found = collect(lines(environment(mode), address, max_retries=4, retry_delay_ms=5))
    assert sorted(found) == sorted(str(n) for n in range(5) for _ in range(10))


@pytest.mark.ci
@pytest.mark.parametrize("mode", MODES)
def test_no_line_comes_twice_after_a_failure_and_some_may_be_lost(mode):
    """A socket cannot be asked again: what the job does not promise does not happen by chance, either."""
    failed.clear()
    second = threading.Event()

    def slowly(start):
        def serve(connection):
            for n in range(start, start + 1000):
                connection.sendall(b"%d\n" % n)
            if start:
                second.set()
            else:  # a reader that reads ahead must not have the second part before it fails
                wait_until(lambda: bool(failed))

        return serve

    env = environment(mode, **restarts(3))
    with feeding(slowly(0), slowly(1000)) as address, MiniCluster():
        found = collect(lines(env, address, max_retries=1).map(fail_once))
    assert failed
    assert second.is_set()
    assert len(found) == len(set(found))
    assert set(found) >= set(range(1000, 2000))  # all that came after the failure
    assert 500 not in found  # it was received, and is in no checkpoint


@pytest.mark.parametrize("mode", MODES)
def test_malformed_lines_go_to_the_side_output(mode):
    with feeding(sends(b"a\n\xff\nb\n")) as address, MiniCluster():
        stream = lines(environment(mode), address).on_error(DEAD)
        letters = stream.get_side_output(DEAD).map(lambda letter: letter.origin["record"])
        found = collect(stream.union(letters))
    assert sorted(found, key=str) == [2, "a", "b"]


@pytest.mark.parametrize("mode", MODES)
def test_a_server_that_is_away_fails_the_job_with_its_address(mode):
    with feeding(sends(b"")) as address:
        pass_by(address)
    env = environment(mode, **{"restart-strategy.type": "none"})
    with MiniCluster(), pytest.raises(JobExecutionError, match=f"127.0.0.1:{address[1]}"):
        collect(lines(env, address))


def pass_by(address):
    import socket

    with socket.create_connection(address):
        pass
