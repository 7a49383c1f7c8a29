"""Threads that write to one stream."""

from __future__ import annotations

import threading

from penstock.common.standard_output import write_out


class Output:
    """A stream that gives another thread the time to write in between."""

    def __init__(self):
        self.story = []
        self.begun = threading.Event()

    def write(self, text):
        self.story.append(text)
        if text == "a":
            self.begun.set()
            self.came_between = threading.Event()
            self.came_between.wait(0.1)
        elif text == "c":
            self.came_between.set()

    def flush(self):
        self.story.append("flush")


def test_what_one_thread_writes_is_seen_before_another_one_writes():
    output = Output()
    other = threading.Thread(target=lambda: output.begun.wait(10) and write_out(output, ["c"]))
    other.start()

    write_out(output, ["a", "b"])
    other.join(10)

    assert output.story == ["a", "b", "flush", "c", "flush"]
