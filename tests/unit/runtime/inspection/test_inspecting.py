"""What a process tells of itself: stacks, its log, memory."""

from __future__ import annotations

import logging
import os
import sys
import threading

import pytest

from penstock.graph.task_id import TaskId
from penstock.runtime.inspection import log_lines
from penstock.runtime.inspection.key_sample import KeySample
from penstock.runtime.inspection.log_lines import LogMemory, remember_log
from penstock.runtime.inspection.process_facts import process_facts
from penstock.runtime.inspection.requests import KeySamples, LogLines, LogTail, StackSamples
from penstock.runtime.inspection.slot_inspector import SlotInspector
from penstock.runtime.inspection.stacks import dump_threads, sample
from penstock.runtime.records import RowBatch

NEVER = threading.Event()


@pytest.fixture
def waiting_thread():
    """A thread that waits in a function with a name."""
    let_go, there = threading.Event(), threading.Event()

    def wait_here():
        there.set()
        let_go.wait(120)

    thread = threading.Thread(target=wait_here, name="the waiting one", daemon=True)
    thread.start()
    assert there.wait(120)
    yield thread
    let_go.set()


def test_samples_end_early_when_they_are_not_wanted_any_more(waiting_thread):
    stopped = threading.Event()
    stopped.set()
    found = sample(StackSamples(1000, 50), waiting_thread.ident, lambda: None, stopped)
    assert found.samples == 0


def test_samples_end_when_their_thread_does():
    thread = threading.Thread(target=lambda: None)
    thread.start()
    thread.join()
    assert sample(StackSamples(5, 1), thread.ident, lambda: None, NEVER).samples == 0


def test_outermost_frames_are_omitted(waiting_thread):
    whole = sample(StackSamples(1, 1), waiting_thread.ident, lambda: None, NEVER)
    ((stack, _),) = whole.counts.items()
    assert stack[0].startswith("threading.Thread._bootstrap")
    run = threading.Thread.run.__code__
    inner = sample(StackSamples(1, 1), waiting_thread.ident, lambda: None, NEVER, {run})
    ((stack, _),) = inner.counts.items()
    assert "wait_here:" in stack[0]


def test_work_for_other_tasks_is_not_counted_and_waiting_is(waiting_thread):
    task, ident = TaskId("mine", 0), waiting_thread.ident
    request = StackSamples(2, 1, task)
    other = sample(request, ident, lambda: TaskId("other", 0), NEVER)
    assert (other.samples, other.counts) == (2, {})
    idle = sample(request, ident, lambda: None, NEVER)
    assert list(idle.counts.values()) == [(0, 2)]


def test_switch_interval_is_restored_after_sampling(waiting_thread):
    usual, seen = sys.getswitchinterval(), []

    def look():
        seen.append(sys.getswitchinterval())

    sample(StackSamples(2, 1), waiting_thread.ident, look, NEVER)
    assert max(seen) < usual
    assert sys.getswitchinterval() == usual


def test_a_dump_has_all_threads_with_the_one_that_runs_tasks_first(waiting_thread):
    threads = dump_threads(waiting_thread.ident)
    assert threads[0].name == "the waiting one"
    assert threads[0].runs_tasks
    assert any("wait_here" in line for line in threads[0].stack)
    names = [each.name for each in threads]
    assert threading.current_thread().name in names
    assert not any(each.runs_tasks for each in threads[1:])


def test_the_oldest_lines_go_when_there_are_too_many_or_they_are_too_long():
    memory = LogMemory(lines=3, characters=10)
    for line in ("a", "b", "c", "d"):
        memory.add(line)
    assert memory.tail(LogTail()) == LogLines(("b", "c", "d"), last=4)
    assert memory.tail(LogTail(after=0)) == LogLines(("b", "c", "d"), last=4, lost=1)
    memory.add("123456789")
    assert memory.tail(LogTail()).lines == ("d", "123456789")
    memory.add("x" * 100)
    assert memory.tail(LogTail()).lines == ("x" * 10,)


def test_log_tail_reports_the_number_of_omitted_lines():
    memory = LogMemory()
    for number in range(10):
        memory.add(str(number))
    assert memory.tail(LogTail(lines=3, after=2)) == LogLines(("7", "8", "9"), last=10, lost=5)
    assert memory.tail(LogTail(after=10)) == LogLines((), last=10)
    assert memory.tail(LogTail(after=99)) == LogLines((), last=10)


@pytest.fixture
def memory(monkeypatch):
    """The memory of this process's log, for one test."""
    before = logging.getLogRecordFactory()
    logging.setLogRecordFactory(logging.LogRecord)
    memory = LogMemory()
    monkeypatch.setattr(log_lines, "MEMORY", memory)
    remember_log()
    yield memory
    logging.setLogRecordFactory(before)


def test_lines_are_kept_whatever_handlers_there_are_and_once_only(memory):
    remember_log()
    root = logging.getLogger()
    handlers = root.handlers
    root.handlers = []
    try:
        logging.getLogger("a").warning("said %s", "once")
        logging.getLogger("a").debug("below the level")
    finally:
        root.handlers = handlers
    (line,) = memory.tail(LogTail()).lines
    assert "WARNING" in line
    assert line.endswith("said once")


def test_a_record_that_cannot_be_formatted_breaks_nothing(memory):
    record = logging.getLogger("a").makeRecord("a", 30, "f", 1, "%d", ("no number",), None)
    assert record.msg == "%d"
    assert len(memory.tail(LogTail()).lines) <= 1


def test_process_facts_report_resource_usage():
    facts = process_facts()
    assert facts.process == os.getpid()
    assert 1 << 20 < facts.memory <= facts.peak_memory
    assert facts.limit is None or facts.limit > facts.memory
    assert facts.threads >= 1


def test_of_large_batches_some_keys_are_looked_at_and_are_as_frequent_as_in_all():
    sample = KeySample(KeySamples(TaskId("v", 0), keys=1000))
    for turn in range(20):
        keys = ["x" if n % 4 == 0 else f"{turn}-{n}" for n in range(6400)]
        sample.add(RowBatch(keys, keys=keys))
    found = sample.result()
    assert sample.full.is_set()
    assert 1000 <= found.sampled < 1200
    assert found.top[0][0] == "'x'"
    assert 0.15 < found.top[0][1] / found.sampled < 0.35


class WatchedSlot:
    """A slot whose only task gives a batch as soon as its keys are watched."""

    working_for = None
    task_ids = (TaskId("v", 0),)

    def __init__(self):
        self.watched = []

    def watch_keys(self, task, sample):
        self.watched.append(sample)
        if sample is not None:
            sample.add(RowBatch([1, 2], keys=["a", "a"]))


def test_keys_are_sampled_only_during_a_request():
    slot = WatchedSlot()
    found = SlotInspector(slot).answer(KeySamples(slot.task_ids[0], keys=2))
    assert found.top == (("'a'", 2),)
    assert [each is None for each in slot.watched] == [False, True]


def test_a_slot_that_ends_does_not_wait_for_more_keys():
    inspector = SlotInspector(WatchedSlot())
    inspector.close()
    assert inspector.answer(KeySamples(TaskId("v", 0), watch_s=60)).sampled == 2


def test_records_without_keys_are_none_of_it():
    sample = KeySample(KeySamples(TaskId("v", 0)))
    sample.add(RowBatch([1, 2, 3]))
    assert sample.result().sampled == 0
