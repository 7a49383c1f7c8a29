from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

from penstock.errors import ConfigurationError
from penstock.runtime.time.decisions import wall_clock
from penstock.testing.clock_shift import clock_shift, clock_shift_environment
from penstock.time import clock


@pytest.fixture
def noon(monkeypatch):
    """A clock that stands at 1000 seconds."""
    before = clock.set_reader(lambda: 1000.25)
    yield
    clock.set_reader(before)


def test_the_clock_is_the_machine_s():
    before = time.time()
    assert before <= clock.now() <= time.time()
    assert int(before * 1000) <= clock.now_ms() <= int(time.time() * 1000)


@pytest.mark.usefixtures("noon")
def test_a_shift_holds_for_its_block_and_shifts_add_up():
    with clock_shift(-3600):
        assert (clock.now(), wall_clock()) == (-2599.75, -2_599_750)
        with clock_shift(60):
            assert clock.now() == -2539.75
        assert clock.now() == -2599.75
    assert wall_clock() == 1_000_250


def test_a_file_switches_a_shift_on(tmp_path, monkeypatch):
    monkeypatch.setattr(clock.time, "time", lambda: 1000.0)
    (text,) = clock_shift_environment(-3600, while_exists=str(tmp_path / "jump")).values()
    read = clock.shifted_reader(text)
    assert read() == 1000.0
    (tmp_path / "jump").touch()
    assert read() == -2600.0


@pytest.mark.parametrize("text", ["an hour", "@/x", "1h"])
def test_a_shift_that_is_not_a_number_is_refused(text):
    with pytest.raises(ConfigurationError, match="is not a valid clock shift"):
        clock.shifted_reader(text)


def test_an_environment_variable_shifts_the_clock_of_other_processes():
    code = "import time; from penstock.time import clock; print(round(clock.now() - time.time()))"
    ran = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **clock_shift_environment(-3600)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stdout.strip() == "-3600"
