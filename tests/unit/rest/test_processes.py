"""The files by which processes are found: private, and gone with their process."""

from __future__ import annotations

import json
import os
import shutil
import socket
import stat
import subprocess
import sys
from dataclasses import asdict, replace

import pytest

from penstock.rest import processes


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("PENSTOCK_HOME", str(tmp_path / "home"))
    return tmp_path / "home" / "processes"


@pytest.fixture
def record():
    return processes.describe_this_process("127.0.0.1:1234", "secret", "job.py")


def test_a_record_is_read_as_it_was_written(record):
    path = processes.write(record)
    assert processes.read_all() == [record]
    processes.remove(path)
    processes.remove(path)
    assert processes.read_all() == []


def test_only_the_user_can_read_it(record, home):
    before = os.umask(0)
    try:
        path = processes.write(record)
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(home.stat().st_mode) == 0o700
    assert [each.name for each in home.iterdir()] == [path.name]


def test_without_the_variable_it_is_in_the_home_directory(monkeypatch, tmp_path):
    monkeypatch.delenv("PENSTOCK_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert processes.directory() == tmp_path / ".penstock" / "processes"


def test_nothing_is_found_where_nothing_was_written(home):
    assert processes.read_all() == []
    assert not home.exists()


def ended_pid():
    child = subprocess.Popen([sys.executable, "-c", "pass"])
    child.wait()
    return child.pid


@pytest.mark.parametrize(
    ("change", "kept"),
    [
        (dict, True),
        (lambda: {"started": "another time"}, False),
        (lambda: {"pid": ended_pid()}, False),
        (lambda: {"started": ""}, False),
    ],
    ids=["lives", "pid was given to another process", "process is gone", "start unknown"],
)
def test_records_of_processes_that_are_gone_are_deleted(record, home, change, kept):
    processes.write(replace(record, **change()))
    assert len(processes.read_all()) == kept
    assert len(list(home.iterdir())) == kept


@pytest.mark.parametrize(
    ("address", "found"), [("127.0.0.1:1", False), ("[::1]:1", False), ("driver.example:1", True)]
)
def test_a_record_of_another_host_stays_and_counts_if_it_can_be_reached(
    record, home, address, found
):
    other = replace(record, host="elsewhere", pid=1, started="then", address=address)
    processes.write(other)
    assert processes.read_all() == ([other] if found else [])
    assert len(list(home.iterdir())) == 1


@pytest.mark.parametrize("text", ["", "{", "[]", '{"pid": 1}', "\udcff"], ids=repr)
def test_a_file_that_is_not_a_record_is_left_out(record, home, text):
    processes.write(record)
    (home / "1-x.json").write_bytes(text.encode("utf-8", "surrogateescape"))
    assert processes.read_all() == [record]


def test_a_file_of_another_user_is_left_out(record, monkeypatch):
    processes.write(record)
    monkeypatch.setattr(os, "getuid", lambda: -1)
    assert processes.read_all() == []


def test_a_process_has_the_start_that_it_tells_itself(record):
    code = "import os; from penstock.rest import processes as p; print(p.process_start(os.getpid()), end='')"
    child = subprocess.Popen(
        [sys.executable, "-c", f"{code}; import sys; sys.stdout.flush(); sys.stdin.read()"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    reported = os.read(child.stdout.fileno(), 1000).decode()
    assert processes.process_start(child.pid) == reported
    assert reported != record.started
    child.communicate()
    assert processes.process_start(child.pid) is None


def test_a_zombie_is_gone():
    child = subprocess.Popen([sys.executable, "-c", "pass"])
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert processes.process_start(child.pid) is None
    child.wait()


@pytest.mark.skipif(shutil.which("ps") is None, reason="ps is not installed (package procps)")
def test_without_proc_ps_is_asked(monkeypatch, tmp_path):
    monkeypatch.setattr(processes, "_BOOT_ID", tmp_path / "none")
    started = processes.process_start(os.getpid())
    assert started
    assert started == processes.process_start(os.getpid())
    assert processes.process_start(ended_pid()) is None


def test_without_proc_and_ps_a_process_is_taken_for_living(monkeypatch, tmp_path):
    monkeypatch.setenv("PENSTOCK_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(processes, "_BOOT_ID", tmp_path / "none")
    monkeypatch.setenv("PATH", str(tmp_path))
    record = processes.describe_this_process("127.0.0.1:1", "secret", "job.py")
    processes.write(record)
    assert processes.read_all() == [record]


@pytest.mark.parametrize(
    ("host", "loopback"),
    [
        ("localhost", True),
        ("LOCALHOST", True),
        ("127.0.0.1", True),
        ("127.3.2.1", True),
        ("::1", True),
        ("127.evil.example", False),
        ("127.0.0.1.evil.example", False),
        ("127.1", False),
        ("localhost.evil.example", False),
        ("10.0.0.1", False),
        ("", False),
    ],
)
def test_only_addresses_of_loopback_and_localhost_are_this_machine(host, loopback):
    assert processes.is_loopback(host) is loopback


def test_the_file_has_what_another_tool_needs(record, home):
    content = json.loads(processes.write(record).read_text())
    assert content == asdict(record)
    assert (content["pid"], content["host"]) == (os.getpid(), socket.gethostname())
