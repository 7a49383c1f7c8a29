"""The command line in a real terminal: help, progress, Ctrl-C, completion in shells, pipes."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from concurrent.futures import Future
from pathlib import Path

import pytest

from penstock.rest import processes
from penstock.rest.routing.routes import Services
from penstock.rest.server.rest_server import RestServer
from tests.builders.rest_fakes import NOW, FakeController
from tests.builders.terminal import TIMEOUT_S, Terminal
from tests.builders.waiting import wait_until

ROOT = Path(__file__).parents[2]
CLICKS = "ab" + "1" * 30
PENSTOCK = [sys.executable, "-m", "penstock"]


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("PENSTOCK_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.delenv("PENSTOCK_TOKEN", raising=False)
    monkeypatch.delenv("PENSTOCK_CONFIG", raising=False)
    return tmp_path


@pytest.fixture
def clicks():
    """A job of this process, as commands in other processes find it."""
    controller = FakeController("clicks", CLICKS)
    services = Services(now_ms=lambda: NOW)
    services.jobs.publish(controller)
    server = RestServer(services, "secret")
    server.start()
    processes.write(processes.describe_this_process(server.client_address, "secret", "job.py"))
    yield controller
    server.close()


def test_who_waits_sees_for_what(clicks):
    clicks.answers["trigger_savepoint"] = result = Future()
    with Terminal([*PENSTOCK, "savepoint", "clicks"]) as terminal:
        terminal.until("a savepoint of job 'clicks' is being written (")
        first = seconds_shown(terminal)[0]
        terminal.until_it_shows(lambda: seconds_shown(terminal)[-1] > first)
        result.set_result("/d/savepoint-9")
        assert terminal.end() == 0
        assert terminal.raw.endswith("\r\x1b[K/d/savepoint-9\r\n")  # the progress is wiped away


def seconds_shown(terminal):
    """The seconds of progress that a terminal has shown, one after another."""
    return [int(seconds) for seconds in re.findall(r"\((\d+) s\)", terminal.text)] or [0]


def test_ctrl_c_ends_the_command_and_not_the_savepoint(clicks):
    clicks.answers["trigger_savepoint"] = result = Future()
    with Terminal([*PENSTOCK, "savepoint", "clicks"]) as terminal:
        terminal.until("is being written")
        terminal.press("\x03")
        assert terminal.end() == 130
        assert "penstock: the request continues, its id is " in terminal.text
        assert "Traceback" not in terminal.text
    assert not result.cancelled()


def test_what_is_piped_has_no_progress(clicks):
    clicks.answers["trigger_savepoint"] = result = Future()
    command = subprocess.Popen(
        [*PENSTOCK, "savepoint", "clicks"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    wait_until(lambda: bool(clicks.calls), seconds=TIMEOUT_S)
    with pytest.raises(subprocess.TimeoutExpired):
        command.wait(1)  # in which a terminal would see progress
    result.set_result("/d/savepoint-9")
    assert command.communicate() == (b"/d/savepoint-9\n", b"")


def test_help_ends_with_examples_and_a_mistake_with_the_usage():
    with Terminal([*PENSTOCK, "rescale", "--help"]) as terminal:
        assert terminal.end() == 0
        assert "penstock rescale clicks 8" in terminal.text
    with Terminal([*PENSTOCK, "rescale"]) as terminal:
        assert terminal.end() == 2
        assert "usage: penstock rescale" in terminal.text


def test_a_reader_that_goes_is_not_an_error_of_ours(home):
    script = f"{' '.join(PENSTOCK)} config --all | head -1; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False)
    assert done.stdout.startswith("OPTION")
    assert done.stderr == ""
    assert done.returncode in {0, 141}  # 0 if all was written before the reader had gone


SHELLS = {
    "bash": (["bash", "--norc", "-i"], 'eval "$(penstock completion bash)"'),
    "zsh": (
        ["zsh", "-f", "-i"],
        'autoload -Uz compinit; compinit -D; eval "$(penstock completion zsh)"',
    ),
    "fish": (["fish", "--no-config", "-i"], "penstock completion fish | source"),
}


@pytest.mark.parametrize("shell", SHELLS)
def test_a_shell_completes_commands_options_and_jobs(shell, clicks, tmp_path):
    if shutil.which(shell) is None:
        pytest.skip(f"there is no {shell}")
    programs = tmp_path / "bin"
    programs.mkdir()
    command = programs / "penstock"
    command.write_text(f'#!/bin/sh\nexec {" ".join(PENSTOCK)} "$@"\n')
    command.chmod(0o755)
    start, load = SHELLS[shell]
    path = f"{programs}:/usr/bin:/bin"
    with Terminal(start, {"PATH": path, "PS1": "> ", "HOME": str(tmp_path)}, tmp_path) as terminal:
        terminal.press(f"{load}; echo lo''aded\r")
        terminal.until("loaded")
        for begun, completed in (
            ("penstock resc\t", "rescale"),
            ("cl\t", "clicks"),
            ("--ver\t", "--vertex"),
        ):
            before = len(terminal.text)
            terminal.press(begun)
            terminal.until(completed.removeprefix(begun.strip().split(" ")[-1]), before)
        before = len(terminal.text)
        terminal.press("\x15")  # the line is empty again
        terminal.press("penstock config --key parallelism.d\t")
        terminal.until("efault", before)
