"""Commands that talk to running jobs, against real servers in this process."""

from __future__ import annotations

import json
import re
import threading
from concurrent.futures import Future

import pytest

from penstock.cli import job_commands, main, output, reach
from penstock.common.job_status import JobStatus
from penstock.errors import CheckpointError
from penstock.rest import processes
from penstock.rest.routing.routes import Services
from penstock.rest.server.rest_server import RestServer
from tests.builders.rest_fakes import NOW, FakeController

TOKEN = "secret"
CLICKS, ORDERS = "ab" + "1" * 30, "ac" + "2" * 30


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("PENSTOCK_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("PENSTOCK_TOKEN", raising=False)
    # Servers of tests answer, however busy the machine is.
    monkeypatch.setattr(reach, "_TIMEOUT_S", 240.0)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def start_process():
    """Start what stands for a process: a server with jobs, and its record."""
    running = []

    def start(*controllers, recorded=True):
        services = Services(now_ms=lambda: NOW)
        for controller in controllers:
            services.jobs.publish(controller)
        server = RestServer(services, TOKEN)
        server.start()
        running.append(server)
        if recorded:
            processes.write(processes.describe_this_process(server.client_address, TOKEN, "job.py"))
        return server

    yield start
    for server in running:
        server.close()


@pytest.fixture
def clicks():
    return FakeController("clicks", CLICKS)


@pytest.fixture
def orders():
    return FakeController("orders", ORDERS)


@pytest.fixture
def server(start_process, clicks, orders):
    return start_process(clicks, orders)


def test_list_shows_what_runs(server, clicks, capsys):
    clicks.status = JobStatus.FINISHED
    assert main(["list"]) == 0
    header, *rows = capsys.readouterr().out.splitlines()
    assert header.split() == ["JOB", "STATE", "STARTED", "FOR", "PROCESS", "NAME"]
    assert [row.split()[0] for row in rows] == [ORDERS]
    assert re.search(r"RUNNING +\d{4}-\d\d-\d\d \d\d:\d\d:\d\d +1 min 00 s", rows[0])
    assert rows[0].endswith(f"at {server.client_address}  orders")


@pytest.mark.parametrize(
    ("option", "names"), [("-r", ["orders"]), ("-a", ["orders", "clicks"]), (None, ["orders"])]
)
def test_list_shows_ended_jobs_if_asked(server, clicks, capsys, option, names):
    clicks.status = JobStatus.FAILED
    assert main(["list", *([option] if option else [])]) == 0
    assert [line.split()[-1] for line in capsys.readouterr().out.splitlines()[1:]] == names


def test_list_says_that_nothing_runs(capsys):
    assert main(["list"]) == 0
    assert capsys.readouterr().out == "no running jobs\n"


def test_list_asks_all_processes_and_forgets_those_that_do_not_answer(
    start_process, clicks, orders, capsys
):
    start_process(clicks)
    start_process(orders)
    gone = processes.describe_this_process("127.0.0.1:1", TOKEN, "job.py")
    processes.write(gone)
    assert main(["list"]) == 0
    output = capsys.readouterr()
    assert {line.split()[-1] for line in output.out.splitlines()[1:]} == {"clicks", "orders"}
    assert output.err == ""


def test_a_job_is_shown(server, clicks, capsys):
    clicks.savepoint = "/sp/1"
    assert main(["job", "clicks"]) == 0
    lines = capsys.readouterr().out.splitlines()
    facts = dict(line.split(maxsplit=1) for line in lines[: lines.index("")])
    assert facts["id"] == CLICKS
    assert (facts["state"], facts["checkpoint_id"], facts["restarts"]) == ("RUNNING", "7", "1")
    assert (facts["checkpoints"], facts["savepoint"]) == (f"/chk/{CLICKS}", "/sp/1")
    assert "ended" not in facts
    table = lines[lines.index("") + 1 :]
    assert re.fullmatch(r"v2 +3 +128 +Map -> Sink +count", table[2])


@pytest.mark.parametrize("name", [CLICKS, CLICKS.upper(), "ab", "ab1", "clicks"])
def test_a_job_is_named_by_its_id_the_beginning_of_it_or_its_name(server, clicks, orders, name):
    assert main(["savepoint", name, "/d"]) == 0
    assert clicks.calls == [("trigger_savepoint", "/d")]
    assert orders.calls == []


def test_a_name_that_looks_like_the_beginning_of_an_id_is_a_name(start_process, clicks, orders):
    orders.name = "ab"
    start_process(clicks, orders)
    assert main(["savepoint", "ab", "/d"]) == 0
    assert orders.calls == [("trigger_savepoint", "/d")]


def test_running_jobs_go_before_ended_ones_of_the_same_name(start_process, clicks, orders):
    orders.name, clicks.status = "clicks", JobStatus.CANCELED
    start_process(clicks)
    start_process(orders)
    assert main(["savepoint", "clicks", "/d"]) == 0
    assert orders.calls == [("trigger_savepoint", "/d")]


def test_a_name_of_several_jobs_is_refused_with_all_of_them(start_process, clicks, orders, capsys):
    orders.name = "clicks"
    start_process(clicks)
    server = start_process(orders)
    assert main(["stop", "clicks"]) == 1
    error = capsys.readouterr().err
    assert error.startswith("penstock: 'clicks' matches 2 jobs\n")
    assert CLICKS in error
    assert ORDERS in error
    assert f"at {server.client_address}" in error
    assert clicks.calls == orders.calls == []
    assert main(["stop", "-m", server.client_address, "clicks"]) == 0
    assert [call[0] for call in orders.calls] == ["stop_with_savepoint"]


@pytest.mark.parametrize("name", ["payments", "", "ad"])
def test_a_job_that_is_not_there_is_refused_with_what_runs(server, clicks, capsys, name):
    clicks.status = JobStatus.FINISHED
    assert main(["cancel", name]) == 1
    error = capsys.readouterr().err
    assert error.startswith(f"penstock: unknown job '{name}'\n")
    assert ORDERS in error
    assert CLICKS not in error


def test_without_jobs_the_message_says_so(capsys):
    assert main(["cancel", "clicks"]) == 1
    assert "detail: no running jobs\n" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "call", "printed"),
    [
        (["savepoint", "ab", "/d"], ("trigger_savepoint", "/d"), "/d/savepoint-1"),
        (["savepoint", "ab"], ("trigger_savepoint", None), "None/savepoint-1"),
        (
            ["savepoint", "ab", "s3://bucket/d"],
            ("trigger_savepoint", "s3://bucket/d"),
            "s3://bucket/d/savepoint-1",
        ),
        (["stop", "ab"], ("stop_with_savepoint", False, None), "None/savepoint-2"),
        (
            ["stop", "--drain", "-p", "/d", "ab"],
            ("stop_with_savepoint", True, "/d"),
            "/d/savepoint-2",
        ),
        (["cancel", "-s", "/d", "ab"], ("stop_with_savepoint", False, "/d"), "/d/savepoint-2"),
        (["cancel", "ab"], ("cancel",), f"job 'clicks' ({CLICKS}) is CANCELED"),
        (["cancel", "--detach", "ab"], ("cancel",), f"job 'clicks' ({CLICKS}) is being cancelled"),
        (["rescale", "ab", "4"], ("rescale", 4), "Source: clicks  2\nMap -> Sink     4"),
        (
            ["rescale", "ab", "--vertex", "count=4", "--vertex", "Source: clicks=2"],
            ("rescale", {"count": 4, "Source: clicks": 2}),
            "Source: clicks  2\nMap -> Sink     4",
        ),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_command_asks_the_job_and_prints_the_result(
    server, clicks, capsys, arguments, call, printed
):
    assert main(arguments) == 0
    assert clicks.calls == [call]
    assert capsys.readouterr().out == f"{printed}\n"


def test_a_directory_is_meant_from_where_the_command_is_given(server, clicks, home):
    assert main(["savepoint", "clicks", "sp"]) == 0
    assert main(["stop", "clicks", "-p", "../sp"]) == 0
    assert clicks.calls[0] == ("trigger_savepoint", str(home / "sp"))
    assert clicks.calls[1] == ("stop_with_savepoint", False, f"{home}/../sp")


@pytest.mark.parametrize(
    ("command", "resource"),
    [
        (["savepoint", "ab", "/d"], "savepoints"),
        (["stop", "ab"], "savepoints"),
        (["cancel", "ab", "-s", "/d"], "savepoints"),
        (["rescale", "ab", "3"], "rescale"),
    ],
    ids=lambda value: value[0],
)
def test_detached_commands_print_the_id_to_ask_with(
    server, clicks, capsys, command, resource, monkeypatch
):
    for method in ("trigger_savepoint", "stop_with_savepoint", "rescale"):
        clicks.answers[method] = Future()
    assert main([*command, "--detach"]) == 0
    trigger = capsys.readouterr().out.strip()
    answer = job_commands.RestClient(server.client_address).get(
        f"/jobs/{CLICKS}/{resource}/{trigger}"
    )
    assert answer["status"]["id"] == "IN_PROGRESS"


def test_a_command_waits_until_the_savepoint_is_there(server, clicks, capsys, monkeypatch):
    clicks.answers["trigger_savepoint"] = result = Future()
    waits = []

    def wait(_, seconds):
        waits.append(seconds)
        if len(waits) == 4:
            result.set_result("/d/savepoint-9")

    monkeypatch.setattr(output.WaitIndicator, "wait", wait)
    assert main(["savepoint", "clicks"]) == 0
    assert capsys.readouterr().out == "/d/savepoint-9\n"
    assert waits == sorted(waits)
    assert len(waits) == 4


@pytest.mark.parametrize(
    ("arguments", "reported"),
    [
        (["savepoint", "ab", "/d"], {"jid": CLICKS, "location": "/d/savepoint-1"}),
        (["stop", "-p", "/d", "ab"], {"jid": CLICKS, "location": "/d/savepoint-2"}),
        (["cancel", "ab"], {"jid": CLICKS, "name": "clicks", "state": "CANCELED"}),
        (
            ["cancel", "--detach", "ab"],
            {"jid": CLICKS, "name": "clicks", "state": "CANCELLING"},
        ),
        (
            ["rescale", "ab", "4"],
            {"jid": CLICKS, "parallelism": {"Source: clicks": 2, "Map -> Sink": 4}},
        ),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_results_are_printed_as_json(server, clicks, capsys, arguments, reported):
    assert main([*arguments, "--json"]) == 0
    assert json.loads(capsys.readouterr().out).items() >= reported.items()


def test_jobs_are_printed_as_json(server, clicks, capsys):
    assert main(["list", "--json"]) == 0
    _, job = json.loads(capsys.readouterr().out)
    assert (job["jid"], job["name"], job["state"]) == (CLICKS, "clicks", "RUNNING")
    assert job["process"].startswith("pid ")
    assert main(["job", "clicks", "--json"]) == 0
    details = json.loads(capsys.readouterr().out)
    assert details["jid"] == CLICKS
    assert details["vertices"]


def test_an_error_is_printed_as_json(server, capsys):
    assert main(["job", "--json", "nobody"]) == 1
    shown = capsys.readouterr()
    assert shown.out == ""
    assert json.loads(shown.err)["error"]["message"] == "unknown job 'nobody'"
    assert main(["config", "--json", "-D", "parallelism.default=x"]) == 2
    assert "cannot be 'x'" in json.loads(capsys.readouterr().err)["error"]["message"]


def test_a_savepoint_that_fails_is_reported(server, clicks, capsys):
    clicks.answers["trigger_savepoint"] = result = Future()
    result.set_exception(CheckpointError("the disk is full", hint="delete something"))
    assert main(["savepoint", "clicks"]) == 1
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err == "penstock: the disk is full\nhint: delete something\n"


@pytest.mark.parametrize("command", ["savepoint", "stop", "cancel"])
def test_an_ended_job_refuses(server, clicks, capsys, command):
    clicks.status = JobStatus.FINISHED
    assert main([command, "clicks"]) == 1
    assert capsys.readouterr().err == f"penstock: job 'clicks' ({CLICKS}) is FINISHED\n"


def test_a_job_that_ends_otherwise_than_cancelled_is_a_failure(server, clicks, capsys):
    def cancel():
        clicks.status = JobStatus.FAILED
        return Future()

    clicks.cancel = cancel
    assert main(["cancel", "clicks"]) == 1
    assert capsys.readouterr().out == f"job 'clicks' ({CLICKS}) is FAILED\n"


def end_process(server):
    """When the request under way was answered, nothing answers any more."""
    threading.Thread(target=lambda: server.wait_until_idle(60) and server.close()).start()


def test_a_process_that_ends_with_its_cancelled_job_is_not_a_failure(server, clicks, capsys):
    clicks.cancel = lambda: end_process(server)
    assert main(["cancel", "clicks"]) == 0
    assert capsys.readouterr().out == f"job 'clicks' ({CLICKS}) is CANCELED\n"


def test_a_process_that_ends_before_it_tells_the_result_is_a_failure(server, clicks, capsys):
    def trigger(directory):
        end_process(server)
        return Future()

    clicks.trigger_savepoint = trigger
    assert main(["savepoint", "clicks"]) == 1
    assert "ended before it reported the result" in capsys.readouterr().err


def test_ctrl_c_ends_the_command_and_not_the_savepoint(server, clicks, capsys, monkeypatch):
    clicks.answers["trigger_savepoint"] = Future()

    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(output.WaitIndicator, "wait", interrupt)
    with pytest.raises(SystemExit) as caught:
        main(["savepoint", "clicks"])
    assert caught.value.code == 130
    assert "the request continues, its id is " in capsys.readouterr().err


def test_an_address_where_nothing_answers_is_a_failure(capsys):
    assert main(["list", "-m", "127.0.0.1:1"]) == 1
    assert capsys.readouterr().err.startswith("penstock: cannot connect to 127.0.0.1:1\n")


@pytest.mark.parametrize("address", ["nonsense", "host:x", "ftp://host:1", "host", ":80"])
def test_a_wrong_address_is_wrong_usage(capsys, address):
    assert main(["list", "-m", address]) == 2
    assert f"invalid address '{address}'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "variable", "code"),
    [([], None, 1), (["--token", "wrong"], None, 1), (["--token", TOKEN], None, 0), ([], TOKEN, 0)],
    ids=["none", "wrong", "option", "variable"],
)
def test_a_process_elsewhere_wants_its_token(
    start_process, clicks, capsys, monkeypatch, arguments, variable, code
):
    server = start_process(clicks, recorded=False)
    if variable:
        monkeypatch.setenv("PENSTOCK_TOKEN", variable)
    address = f"http://{server.client_address}"
    assert main(["cancel", "-m", address, *arguments, "clicks"]) == code
    assert len(clicks.calls) == (code == 0)
    if code:
        error = capsys.readouterr().err
        assert "token" in error
        assert "PENSTOCK_TOKEN" in error


def test_the_token_of_an_own_process_is_known_by_its_address(server, clicks):
    assert main(["cancel", "-m", server.client_address, "clicks"]) == 0


@pytest.mark.parametrize(
    "arguments",
    [
        ["stop"],
        ["savepoint"],
        ["savepoint", "--dispose", "/sp", "job"],
        ["rescale", "job"],
        ["rescale", "job", "0"],
        ["rescale", "job", "two"],
        ["rescale", "job", "--vertex", "map"],
        ["rescale", "job", "--vertex", "=2"],
        ["rescale", "job", "--vertex", "map=x"],
        ["list", "-a", "-r"],
        ["nonsense"],
    ],
    ids=" ".join,
)
def test_wrong_usage_has_exit_code_2(arguments, capsys):
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    assert capsys.readouterr().err.startswith("usage: penstock")


@pytest.mark.parametrize("elsewhere", [False, True], ids=["here", "by a process"])
def test_a_savepoint_is_disposed_of(server, capsys, monkeypatch, home, elsewhere):
    from penstock.savepoint import reader

    disposed = []
    monkeypatch.setattr(reader, "dispose_savepoint", disposed.append)
    where = ["-m", server.client_address] if elsewhere else []
    assert main(["savepoint", *where, "--dispose", "sp"]) == 0
    assert disposed == [str(home / "sp")]
    assert capsys.readouterr().out == f"deleted {home}/sp\n"


def test_what_is_not_a_savepoint_is_not_disposed_of(capsys, home):
    (home / "sp").mkdir()
    assert main(["savepoint", "--dispose", "sp"]) == 1
    assert "is not a savepoint" in capsys.readouterr().err
    assert (home / "sp").exists()
