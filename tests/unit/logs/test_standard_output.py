"""Threads that write to one stream."""

from __future__ import annotations

import threading

from penstock.logs import standard_output
from penstock.logs.standard_output import write_out


class Output:
    """A stream that lets another thread come between two texts of one."""

    def __init__(self):
        self.story = []
        self.begun = threading.Event()
        self.other_came = threading.Event()

    def write(self, text):
        self.story.append(text)
        if text == "a":
            self.begun.set()
            assert self.other_came.wait(60)
        elif text == "c":
            self.other_came.set()

    def flush(self):
        self.story.append("flush")


class Door:
    """A lock that reports when a thread has to wait for it."""

    def __init__(self, on_wait):
        self._lock = threading.Lock()
        self._on_wait = on_wait

    def __enter__(self):
        if not self._lock.acquire(blocking=False):
            self._on_wait()
            self._lock.acquire()

    def __exit__(self, *_):
        self._lock.release()


def test_what_one_thread_writes_is_seen_before_another_one_writes(monkeypatch):
    output = Output()
    monkeypatch.setattr(standard_output, "_writing", Door(output.other_came.set))
    other = threading.Thread(target=lambda: output.begun.wait(60) and write_out(output, ["c"]))
    other.start()

    write_out(output, ["a", "b"])
    other.join(60)

    assert output.story == ["a", "b", "flush", "c", "flush"]
