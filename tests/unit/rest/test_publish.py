"""Publishing jobs: in the background, never in the job's way, one server per process."""

from __future__ import annotations

import json
import logging
import os
import signal
import socket
import subprocess
import sys
import textwrap
import threading
from urllib.parse import quote
from urllib.request import urlopen

import pytest

from penstock.common.job_status import JobStatus
from penstock.errors import ConfigurationError
from penstock.options.configuration import Configuration
from penstock.rest import processes, publish
from penstock.rest.client.rest_client import RestClient
from penstock.rest.ports import parse_ports
from penstock.rest.server import endpoint as endpoints
from penstock.rest.server.endpoint import Binding


def test_a_published_job_is_found_and_reached(publisher, make_controller):
    controller = make_controller()
    publish.publish(controller, Configuration())
    publisher.settle()
    (record,) = processes.read_all()
    client = RestClient(record.address, record.token)
    assert client.get("/jobs")["jobs"] == [{"id": str(controller.job_id), "status": "RUNNING"}]
    client.request("PATCH", f"/jobs/{controller.job_id}")
    publish.withdraw(controller)
    assert client.get(f"/jobs/{controller.job_id}")["state"] == "CANCELED"


def test_all_jobs_of_a_process_share_a_server(publisher, make_controller):
    for name in ("one", "two"):
        publish.publish(make_controller(name), Configuration())
    publisher.settle()
    (record,) = processes.read_all()
    jobs = RestClient(record.address).get("/jobs/overview")["jobs"]
    assert [job["name"] for job in jobs] == ["two", "one"]


def test_a_job_may_stay_unpublished(publisher, make_controller):
    publish.publish(make_controller(), Configuration.from_dict({"penstock.rest.enabled": "false"}))
    publisher.settle()
    assert publisher.endpoint is None
    assert processes.read_all() == []


def test_the_way_of_a_job_imports_neither_a_server_nor_threads_of_one():
    """Measured: about 1 ms; with the server's modules it would be over 30 ms."""
    code = "import sys, penstock.rest.publish; print(*sorted(m for m in sys.modules if 'http' in m or 'penstock.rest' in m))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == ["penstock.rest", "penstock.rest.publish"]


def test_a_job_does_not_wait_for_the_server(publisher, make_controller, monkeypatch):
    may_listen = threading.Event()

    class SlowServer(endpoints.RestServer):
        def __init__(self, *arguments, **options):
            assert may_listen.wait(60)
            super().__init__(*arguments, **options)

    monkeypatch.setattr(endpoints, "RestServer", SlowServer)
    publish.publish(make_controller(), Configuration())
    publish.publish(make_controller(), Configuration())
    assert processes.read_all() == []
    may_listen.set()
    publisher.settle()
    assert len(processes.read_all()) == 1


@pytest.mark.parametrize("late", ["Endpoint", "RestServer"])
def test_a_process_that_ends_while_its_server_starts_leaves_no_file(
    publisher, make_controller, monkeypatch, late
):
    """The end does not wait for long, so the thread that starts the server may go on after it."""
    monkeypatch.setattr(publish, "PUBLISHING_TIMEOUT_S", 0)
    entered, may_go_on = threading.Event(), threading.Event()

    class Slow(getattr(endpoints, late)):
        def __init__(self, *arguments, **options):
            entered.set()
            assert may_go_on.wait(60)
            super().__init__(*arguments, **options)

    monkeypatch.setattr(endpoints, late, Slow)
    publish.publish(make_controller(), Configuration())
    assert entered.wait(60)
    publisher.close(0)
    may_go_on.set()
    publisher.settle()
    assert processes.read_all() == []


def test_a_port_that_is_taken_is_a_warning_and_the_next_job_tries_again(
    publisher, make_controller, caplog
):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        publish.publish(make_controller("one"), Configuration.from_dict({"rest.port": port}))
        publisher.settle()
    (warning,) = caplog.records
    assert warning.levelno == logging.WARNING
    assert (
        f"cannot start the REST server at 127.0.0.1, port {port}: Address already in use"
        in warning.message
    )
    assert "set rest.port" in warning.message
    assert processes.read_all() == []
    publish.publish(make_controller("two"), Configuration.from_dict({"rest.port": port}))
    publisher.settle()
    (record,) = processes.read_all()
    assert record.address == f"127.0.0.1:{port}"
    assert len(RestClient(record.address).get("/jobs")["jobs"]) == 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"rest.bind-address": "no such address"},
            "cannot start the REST server at no such address",
        ),
        ({"rest.bind-port": "many"}, "invalid port range 'many'"),
    ],
    ids=["address", "ports"],
)
def test_wrong_settings_are_warnings(publisher, make_controller, caplog, options, message):
    publish.publish(make_controller(), Configuration.from_dict(options))
    publisher.settle()
    (warning,) = caplog.records
    assert message in warning.message


def test_a_home_that_cannot_be_written_to_is_a_warning(
    publisher, make_controller, caplog, monkeypatch, tmp_path
):
    file = tmp_path / "file"
    file.write_text("")
    monkeypatch.setenv("PENSTOCK_HOME", str(file))
    publish.publish(make_controller(), Configuration())
    publisher.settle()
    address = publisher.endpoint.server.client_address
    (warning,) = caplog.records
    assert f"only with -m {address}" in warning.message
    assert len(RestClient(address).get("/jobs")["jobs"]) == 1


def test_a_controller_that_fails_does_not_fail_the_job(publisher, caplog):
    publish.publish(object(), Configuration())
    publisher.settle()
    publish.withdraw(object())
    assert len(caplog.records) == 2


def test_the_token_may_be_given(publisher, make_controller, monkeypatch):
    monkeypatch.setenv("PENSTOCK_TOKEN", "mine")
    publish.publish(make_controller(), Configuration())
    publisher.settle()
    assert processes.read_all()[0].token == "mine"


def test_nothing_is_published_after_the_end(publisher, make_controller):
    publisher.close(0)
    publish.publish(make_controller(), Configuration())
    publisher.settle()
    assert publisher.endpoint is None


@pytest.mark.parametrize(
    ("text", "ports"),
    [
        ("8081", (8081,)),
        ("8081-8083", (8081, 8082, 8083)),
        ("8081, 9000-9001", (8081, 9000, 9001)),
        ("0", (0,)),
    ],
)
def test_ports_are_read(text, ports):
    assert parse_ports(text) == ports


@pytest.mark.parametrize("text", ["", "x", "9-8", "70000", "-1"])
def test_wrong_ports_are_refused(text):
    with pytest.raises(ConfigurationError):
        parse_ports(text)


def test_options_say_where_to_listen():
    given = {"rest.port": "1", "rest.bind-address": "0.0.0.0", "rest.address": "driver"}
    assert Binding.from_configuration(Configuration.from_dict(given)) == Binding(
        "0.0.0.0", (1,), "driver"
    )
    given["rest.bind-port"] = "5-6"
    assert Binding.from_configuration(Configuration.from_dict(given)).ports == (5, 6)
    assert Binding.from_configuration(Configuration()) == Binding("127.0.0.1", (0,), None)


PROGRAM = """
import sys
from concurrent.futures import Future
import penstock.rest.publish
from penstock.options.configuration import Configuration
from penstock.common.job_id import JobID
from penstock.common.job_status import JobStatus
from penstock.rest.publish import publish

class Controller:
    stopped = Future()
    def get_job_id(self): return JobID("a" * 32)
    def get_job_status(self): return JobStatus.RUNNING
    def stop_with_savepoint(self, drain, directory):
        result = Future()
        result.set_result("/sp/1")
        self.stopped.set_result(None)
        return result

controller = Controller()
publish(controller, Configuration())
print("published", flush=True)
{end}
"""


def run_program(tmp_path, end):
    environment = {**os.environ, "PENSTOCK_HOME": str(tmp_path)}
    child = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(PROGRAM).replace("{end}", end)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment,
    )  # fmt: skip
    assert child.stdout.readline() == "published\n"
    return child


def wait_for_record(tmp_path):
    while not (found := list((tmp_path / "processes").glob("*.json"))):
        pass
    return json.loads(found[0].read_text())


def test_the_file_goes_with_the_process(tmp_path):
    child = run_program(tmp_path, "sys.stdin.read()")
    record = wait_for_record(tmp_path)
    assert record["pid"] == child.pid
    child.communicate(timeout=60)
    assert child.returncode == 0
    assert list((tmp_path / "processes").iterdir()) == []


def test_the_file_of_a_killed_process_is_deleted_by_the_next_reader(tmp_path, monkeypatch):
    child = run_program(tmp_path, "sys.stdin.read()")
    wait_for_record(tmp_path)
    os.kill(child.pid, signal.SIGKILL)
    child.communicate(timeout=60)
    monkeypatch.setenv("PENSTOCK_HOME", str(tmp_path))
    assert len(list((tmp_path / "processes").iterdir())) == 1
    assert processes.read_all() == []
    assert list((tmp_path / "processes").iterdir()) == []


def test_a_process_that_ends_at_once_leaves_no_file(tmp_path):
    for _ in range(5):
        child = run_program(tmp_path, "")
        child.communicate(timeout=60)
        assert child.returncode == 0
    folder = tmp_path / "processes"
    assert not folder.exists() or list(folder.iterdir()) == []


def test_the_client_that_stops_a_job_gets_the_path_before_the_process_ends(tmp_path):
    end = "controller.stopped.result(); penstock.rest.publish.publisher().close(60)"
    child = run_program(tmp_path, end)
    record = wait_for_record(tmp_path)
    client = RestClient(record["address"], record["token"])
    job = f"/jobs/{'a' * 32}"
    trigger = client.request("POST", f"{job}/stop", {})["request-id"]
    answer = client.get(f"{job}/savepoints/{trigger}")
    assert answer["operation"] == {"location": "/sp/1"}
    child.communicate(timeout=60)
    assert child.returncode == 0


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_fork_has_an_endpoint_of_its_own(publisher, make_controller):
    publish.publish(make_controller(), Configuration())
    publisher.settle()
    reader, writer = os.pipe()
    server = publisher.endpoint.server
    child = os.fork()
    if child == 0:
        closed = server.socket.fileno() == -1
        os.write(writer, f"{publish.publisher() is publisher} {closed}".encode())
        os._exit(0)
    os.waitpid(child, 0)
    os.close(writer)
    assert os.read(reader, 100) == b"False True"
    os.close(reader)
    assert len(RestClient(server.client_address).get("/jobs")["jobs"]) == 1


def test_the_end_waits_for_the_request_that_ended_the_job(publisher, make_controller):
    controller = make_controller()
    publish.publish(controller, Configuration())
    publisher.settle()
    entered, may_answer, waiting = threading.Event(), threading.Event(), threading.Event()
    story = []

    def cancel():
        entered.set()
        assert may_answer.wait(60)
        controller.status = JobStatus.CANCELED
        story.append("answered")

    def wait_until_idle(timeout_s):
        waiting.set()
        return wait(timeout_s)

    def end():
        publisher.close(60)
        story.append("ended")

    controller.cancel = cancel
    server = publisher.endpoint.server
    wait, server.wait_until_idle = server.wait_until_idle, wait_until_idle
    client = RestClient(publisher.endpoint.server.client_address, publisher.endpoint.token)
    answers = []
    asking = threading.Thread(
        target=lambda: answers.append(client.request("PATCH", f"/jobs/{controller.job_id}"))
    )
    asking.start()
    assert entered.wait(60)
    ending = threading.Thread(target=end)
    ending.start()
    assert waiting.wait(60)
    may_answer.set()
    ending.join(60)
    asking.join(60)
    assert (story, answers) == (["answered", "ended"], [{}])


def test_the_address_of_the_page_is_known_once_a_job_is_published(publisher, make_controller):
    assert publish.page_address(0) is None
    publisher.publish(make_controller(), Configuration())
    address = publish.page_address(60)
    start, token = address.split("#token=")
    assert token == quote(publisher.endpoint.token, safe="")
    with urlopen(start) as page:
        assert b"Penstock" in page.read()
