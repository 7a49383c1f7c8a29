"""Log lines: what they say, how they are sent and kept."""

from __future__ import annotations

import json
import logging
import select
import socket
import subprocess
import sys
import threading
import types

import pytest

from penstock.logs import handler, sending
from penstock.logs.handler import LineFormatter, LogRecordFactory, PrintedLines
from penstock.logs.lines import LONGEST_TEXT, LogLine
from penstock.logs.log_buffer import LogBuffer
from penstock.logs.scope import LogScope, current_scope, working_for
from penstock.logs.sending import LineReceiver, LineSender, LogAddress
from tests.builders.waiting import wait_until

SCOPE = LogScope("a" * 32, "clicks", "b" * 32, "Map", 1, 4, 0)
LINE = LogLine(1_700_000_000_123, "WARNING", "my.module", "too many clicks", SCOPE, thread="slot 1")


def test_a_line_as_text_has_job_vertex_and_subtask():
    text = LINE.in_format("text")
    assert (
        f"[job {'a' * 32}, vertex {'b' * 32} Map, subtask 2/4, attempt 0] - too many clicks" in text
    )
    assert " WARNING my.module " in text


def test_a_line_as_json_is_one_object_and_comes_back_as_it_was():
    text = LINE.in_format("json")
    assert "\n" not in text
    data = json.loads(text)
    assert (data["job_id"], data["vertex"], data["subtask"]) == ("a" * 32, "Map", 1)
    assert data["timestamp"] == "2023-11-14T22:13:20.123Z"
    assert LogLine.from_json(data) == LINE


def test_a_traceback_is_part_of_the_line():
    try:
        raise ValueError("no click")
    except ValueError:
        record = logging.LogRecord("m", 40, "f.py", 1, "failed %s", ("here",), sys.exc_info())
    line = LogLine.of(record, SCOPE)
    assert line.message == "failed here"
    assert line.exception.endswith("ValueError: no click")
    assert line.in_format("text").endswith("ValueError: no click")


@pytest.mark.parametrize("arguments", [("too", "many"), (object(),)])
def test_a_record_whose_text_cannot_be_made_is_a_line_all_the_same(arguments):
    class Bad:
        def __str__(self):
            raise RuntimeError

    record = logging.LogRecord("m", 30, "f.py", 1, "%s", (Bad(),), None)
    assert "%s" in LogLine.of(record, SCOPE).message


def test_a_line_that_is_too_long_is_cut():
    record = logging.LogRecord("m", 30, "f.py", 1, "x" * 100_000, (), None)
    assert len(LogLine.of(record, SCOPE).message) < LONGEST_TEXT + 100


def test_a_thread_says_once_how_to_find_out_what_it_works_for():
    works_for = [SCOPE]
    with working_for(lambda: works_for[0]):
        assert current_scope() == SCOPE
        works_for[0] = LogScope("c" * 32)
        assert current_scope() == LogScope("c" * 32)
        seen = []
        thread = threading.Thread(target=lambda: seen.append(current_scope()))
        thread.start()
        thread.join()
        assert seen == [LogScope()]
    assert current_scope() == LogScope()


def test_records_know_their_job_for_any_formatter_and_are_taken():
    taken = []
    factory = LogRecordFactory(logging.LogRecord)
    factory.takers["test"] = taken.append
    with working_for(lambda: SCOPE):
        record = factory("m", 30, "f.py", 1, "hello %s", ("you",), None)
    formatted = logging.Formatter("%(job_id)s %(vertex)s %(subtask)s %(message)s").format(record)
    assert formatted == f"{'a' * 32} Map 1 hello you"
    assert json.loads(LineFormatter("json").format(record))["vertex"] == "Map"
    assert [(line.message, line.scope) for line in taken] == [("hello you", SCOPE)]


def test_who_takes_a_line_may_log():
    taken = []

    def take(line):
        taken.append(line)
        factory("m", 30, "f.py", 1, "again", (), None)

    factory = LogRecordFactory(logging.LogRecord)
    factory.takers["test"] = take
    factory("m", 30, "f.py", 1, "once", (), None)
    assert [line.message for line in taken] == ["once"]


def test_what_is_printed_is_passed_on_and_becomes_lines(capsys):
    taken = []
    stream = PrintedLines(sys.stdout, "stdout", taken.append)
    with working_for(lambda: SCOPE):
        print("one\ntw", end="", file=stream)
        print("o", file=stream)
    assert capsys.readouterr().out == "one\ntwo\n"
    assert [(line.message, line.stream, line.scope.vertex) for line in taken] == [
        ("one", "stdout", "Map"),
        ("two", "stdout", "Map"),
    ]


def test_with_json_what_is_printed_is_json_too(capsys):
    print("one", file=PrintedLines(sys.stdout, "stdout", lambda _: None, "json"))
    assert json.loads(capsys.readouterr().out)["message"] == "one"


# The book


def test_the_book_has_the_lines_of_each_job_in_order():
    book = LogBuffer()
    for number, job in enumerate("abab"):
        book.add(LogLine(number, "INFO", "m", f"line {number}", LogScope(job)))
    assert [each.line.message for each in book.entries(job_id="a")] == ["line 0", "line 2"]
    assert [each.number for each in book.entries()] == [1, 2, 3, 4]
    assert [each.number for each in book.entries(lambda each: each.number > 2, job_id="b")] == [4]


def test_the_book_forgets_the_oldest_lines_of_a_job_and_says_how_many(monkeypatch):
    monkeypatch.setattr("penstock.logs.log_buffer.LINES_OF_A_JOB", 3)
    book = LogBuffer()
    for number in range(5):
        book.add(LogLine(number, "INFO", "m", str(number), LogScope("a")))
    book.add(LogLine(9, "INFO", "m", "other", LogScope("b")))
    assert [each.line.message for each in book.entries(job_id="a")] == ["2", "3", "4"]
    assert (book.left_out("a"), book.left_out("b")) == (2, 0)


# Sending


@pytest.fixture
def received():
    return []


@pytest.fixture
def receiver(received):
    receiver = LineReceiver("127.0.0.1", "127.0.0.1", received.append, lambda hello: hello["name"])
    yield receiver
    threading.Thread(target=receiver.close, daemon=True).start()  # it takes half a second


def test_lines_arrive_with_the_place_that_they_came_from(receiver, received):
    sender = LineSender(receiver.address, {"name": "executor 7"})
    sender.send(LINE)
    (line,) = wait_until(lambda: received)
    assert (line.message, line.scope.taskmanager) == ("too many clicks", "executor 7")
    assert line.scope.process
    assert line.scope.vertex == "Map"
    sender.close()


def test_who_has_not_the_token_is_not_heard(receiver, received):
    wrong = LogAddress("127.0.0.1", receiver.address.port, "guessed")
    sender = LineSender(wrong, {"name": "stranger"})
    sender.send(LINE)
    assert select.select([sender._socket], [], [], 60)[0]
    assert sender._socket.recv(1) == b"", "the receiver hangs up"
    right = LineSender(receiver.address, {"name": "executor 7"})
    right.send(LINE)
    wait_until(lambda: received)
    assert [line.scope.taskmanager for line in received] == ["executor 7"]


@pytest.mark.parametrize("noise", [b"\x00\xff\n", b"{}\n", b"[1]\n"])
def test_what_is_not_a_line_is_left_out(receiver, received, noise):
    with socket.create_connection(("127.0.0.1", receiver.address.port)) as connection:
        hello = {"token": receiver.address.token, "name": "executor 7"}
        connection.sendall(json.dumps(hello).encode() + b"\n")
        connection.sendall(noise)
        connection.sendall(LINE.in_format("json").encode() + b"\n")
        assert [line.message for line in wait_until(lambda: received)] == ["too many clicks"]


def test_what_a_process_has_logged_before_it_is_killed_arrives(receiver, received):
    address = receiver.address
    program = f"""
import os, signal
from penstock.logs.lines import LogLine
from penstock.logs.sending import LineSender, LogAddress
sender = LineSender(LogAddress({address.host!r}, {address.port}, {address.token!r}), {{"name": "w"}})
for number in range(100):
    sender.send(LogLine(0, "INFO", "m", f"line {{number}}"))
os.kill(os.getpid(), signal.SIGKILL)
"""
    subprocess.run([sys.executable, "-c", program], check=False)
    wait_until(lambda: len(received) == 100)
    assert received[-1].message == "line 99"


def test_the_number_of_lines_left_out_is_logged(receiver, received, monkeypatch):
    monkeypatch.setattr(sending, "_BURST", 10)
    monkeypatch.setattr(sending, "_PER_SECOND", 0.001)
    sender = LineSender(receiver.address, {"name": "w"})
    for _ in range(50):
        sender.send(LINE)
    monkeypatch.setattr(sending, "_PER_SECOND", 1_000_000)
    sender.send(LINE)
    wait_until(lambda: len(received) == 12)
    assert "40 lines were omitted" in received[10].message


def test_a_receiver_that_is_gone_is_looked_for_now_and_then_and_not_for_every_line(monkeypatch):
    now, tries = [1000.0], []

    def connect(address, timeout):
        tries.append(timeout)
        raise ConnectionRefusedError

    monkeypatch.setattr(sending, "time", types.SimpleNamespace(monotonic=lambda: now[0]))
    monkeypatch.setattr(socket, "create_connection", connect)
    sender = LineSender(LogAddress("127.0.0.1", 1, "t"), {})
    for _ in range(1000):
        sender.send(LINE)
    assert tries == [sending._CONNECT_S]
    now[0] += sending._PAUSE_S
    sender.send(LINE)
    assert tries == [sending._CONNECT_S] * 2


def test_who_logs_never_waits_for_a_receiver_that_does_not_read():
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        sender = LineSender(LogAddress("127.0.0.1", deaf.getsockname()[1], "t"), {})
        sender._allowance = 10**9

        def log():
            for _ in range(2000):
                sender.send(LogLine(0, "INFO", "m", "x" * 10_000))

        logging_thread = threading.Thread(target=log, daemon=True)
        logging_thread.start()
        logging_thread.join(60)
        assert not logging_thread.is_alive()
        assert len(sender._waiting) < 3_000_000
        sender.close()


def test_a_second_taker_takes_the_place_of_the_first(monkeypatch):
    before = logging.getLogRecordFactory()
    first, second = [], []
    try:
        handler.take_records("test", first.append)
        handler.take_records("test", second.append)
        logging.getLogger("some.module").error("hello")
    finally:
        logging.setLogRecordFactory(before)
    assert (len(first), len(second)) == (0, 1)


def test_lines_are_shown_with_what_they_are_about_unless_another_format_is_set(capsys):
    shows = handler.StderrHandler("text", "WARNING")
    factory = LogRecordFactory(logging.LogRecord)
    for extra in ({}, handler.OFF_TERMINAL):
        with working_for(lambda: SCOPE):
            record = factory("m", 40, "f.py", 1, "it broke", (), None)
        record.__dict__.update(extra)
        shows.handle(record)
    (line,) = capsys.readouterr().err.splitlines()
    assert line.endswith("subtask 2/4, attempt 0] - it broke")
