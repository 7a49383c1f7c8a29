"""Threads that begin late, as on a busy machine."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest

from tests.builders import thread_delays
from tests.builders.thread_delays import ThreadDelays


@pytest.fixture
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How long threads would have slept."""
    found: list[float] = []
    monkeypatch.setattr(thread_delays, "time", SimpleNamespace(sleep=found.append))
    return found


@pytest.fixture
def begin_test() -> Iterator[Callable[[str], None]]:
    """Begin the delays of a test, by its name."""
    delays = ThreadDelays(3.0, "seed")
    delays.pytest_configure()

    def begin(name: str) -> None:
        item: Any = SimpleNamespace(nodeid=name)
        delays.pytest_runtest_setup(item)

    yield begin
    delays.pytest_unconfigure()


def run_threads(number: int) -> None:
    threads = [threading.Thread(target=lambda: None) for _ in range(number)]
    for thread in threads:
        thread.start()
        thread.join()


def test_delays_depend_on_the_test_and_on_nothing_before_it(begin_test, slept) -> None:
    runs = []
    for name in ("one", "other", "one"):
        begin_test(name)
        run_threads(5)
        runs.append(slept.copy())
        slept.clear()
    assert runs[0] == runs[2] != runs[1]
    assert all(0 <= seconds <= 3 for seconds in runs[0])
    assert len(runs[0]) == 5


def test_threads_of_a_pool_are_delayed_and_those_of_other_packages_are_not(
    begin_test, slept
) -> None:
    begin_test("one")
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(lambda: "done").result() == "done"
    assert len(slept) == 1
    elsewhere: dict[str, Any] = {"threading": threading}
    code = "def start():\n    thread = threading.Thread()\n    thread.start()\n    thread.join()\n"
    exec(compile(code, "/elsewhere/site-packages/other.py", "exec"), elsewhere)
    elsewhere["start"]()
    assert len(slept) == 1


def test_of_many_threads_of_a_test_most_are_not_delayed(begin_test, slept) -> None:
    begin_test("one")
    run_threads(400)
    assert 20 <= len(slept) <= 150
