"""Directories for temporary files: what a killed process left goes, what a living one has stays."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from penstock.processes import temporary

HERE = temporary.this_process()


@pytest.fixture(autouse=True)
def root(tmp_path, monkeypatch):
    """A directory for temporary files of one's own, as a new process finds it."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(temporary, "_swept", set())
    return tmp_path


def leave(root, name):
    path = root / name
    path.mkdir()
    (path / "file").write_bytes(b"x")
    return path


def test_a_directory_names_this_process():
    path = Path(temporary.create_directory("state"))
    assert re.fullmatch(rf"penstock-state-[0-9a-f]+\.{os.getpid()}\.\d+-\w+", path.name)
    assert path.stat().st_mode & 0o077 == 0
    with temporary.directory("replay") as other:
        assert Path(other).name.startswith(f"penstock-replay-{HERE}-")
    assert not Path(other).exists()


MACHINE, PID, START = HERE.split(".")


@pytest.mark.parametrize(
    ("name", "stays"),
    [
        pytest.param(f"penstock-state-{HERE}-abc", True, id="this process"),
        pytest.param(f"penstock-state-{MACHINE}.999999999.1-abc", False, id="gone"),
        pytest.param(f"penstock-checkpoints-{MACHINE}.999999999.1-a_c", False, id="another kind"),
        pytest.param(f"penstock-state-{MACHINE}.{PID}.1-abc", False, id="its number was reused"),
        pytest.param("penstock-state-0123456789ab.999999999.1-abc", True, id="another machine"),
        pytest.param("penstock-state-abc", True, id="of an unknown owner"),
        pytest.param(f"other-state-{MACHINE}.999999999.1-abc", True, id="not ours"),
        pytest.param(f"penstock-state-{MACHINE}.999999999.1-abc.d", True, id="another name"),
    ],
)
def test_what_dead_processes_left_goes_at_the_next_start(root, name, stays):
    left = leave(root, name)
    temporary.create_directory("state")
    assert left.exists() == stays


@pytest.mark.parametrize(("age_s", "stays"), [(0, True), (240, True), (3600, False)])
def test_a_jvm_that_a_dead_process_had_started_keeps_its_directory_for_a_while(root, age_s, stays):
    left = leave(root, f"penstock-jvm-{MACHINE}.999999999.1-abc")
    then = time.time() - age_s
    os.utime(left, (then, then))
    temporary.create_directory("state")
    assert left.exists() == stays


def test_what_others_own_and_links_are_left_alone(root, monkeypatch):
    target = leave(root, "precious")
    link = root / f"penstock-state-{MACHINE}.999999999.1-link"
    link.symlink_to(target)
    left = leave(root, f"penstock-state-{MACHINE}.999999999.1-abc")
    user = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: user + 1)
    temporary.sweep()
    assert (target / "file").exists()
    assert link.is_symlink()
    assert left.exists()


def test_it_is_looked_for_once_in_a_process(root):
    temporary.sweep()
    left = leave(root, f"penstock-state-{MACHINE}.999999999.1-abc")
    temporary.create_directory("state")
    assert left.exists()


CHILD = """
import sys, tempfile
from penstock.processes import temporary
tempfile.tempdir = sys.argv[1]
print(temporary.create_directory("state"), flush=True)
sys.stdin.read()
"""


def test_a_process_that_is_killed_leaves_what_the_next_one_deletes(root, monkeypatch):
    command = [sys.executable, "-c", CHILD, str(root)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        left = Path(child.stdout.readline().strip())
        temporary.sweep()
        assert left.is_dir()  # its owner lives
        child.send_signal(signal.SIGKILL)
        child.wait()
    assert left.is_dir()
    monkeypatch.setattr(temporary, "_swept", set())
    temporary.sweep()
    assert not left.exists()


def test_without_proc_a_process_is_gone_if_it_cannot_be_asked(monkeypatch):
    monkeypatch.setattr(temporary, "_start", lambda pid: None)
    owner = temporary.this_process()
    assert not temporary.is_gone(owner)
    assert temporary.is_gone(owner.replace(f".{os.getpid()}.", ".999999999."))
    assert not temporary.is_gone("nonsense")
