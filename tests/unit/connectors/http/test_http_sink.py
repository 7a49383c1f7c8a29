"""The writer of an HTTP sink, against a server that answers what the test says."""

from __future__ import annotations

import json
import threading

import pytest

from penstock.common import Row
from penstock.common.serialization import SimpleStringSchema
from penstock.connectors.base.retrying import Backoff
from penstock.connectors.base.sink import CheckpointContext, CommitRequest, WriterContext
from penstock.connectors.base.staged_sinks import CollectSink
from penstock.connectors.function.sink import FunctionSink
from penstock.connectors.http import sink as sink_module
from penstock.connectors.http.sink import HttpSink
from penstock.errors import ArgumentError, ArgumentTypeError, ConnectionFailedError, RecordError
from penstock.time import clock
from tests.builders.http_server import http_server
from tests.builders.ports import reserved_port
from tests.builders.waiting import wait_until

CONTEXT = WriterContext("job", "operator", 0, 1, "")


def opened(sink, checkpoint_id=1):
    writer = sink.create_writer(CONTEXT)
    writer.begin(CheckpointContext(checkpoint_id, f"attempt-{checkpoint_id}"))
    return writer


def send(sink, records):
    """Write one epoch and return its committables."""
    writer = opened(sink)
    try:
        writer.write(records, None, 0)
        return writer.prepare_commit()
    finally:
        writer.close()


def flaky(*statuses, headers=None):
    """Answer with these statuses, one after another, then accept."""
    left = list(statuses)
    return lambda got: (left.pop(0), headers or {}, b"no") if left else (200, {}, b"ok")


def test_a_record_is_a_request_with_its_json():
    with http_server() as server:
        send(HttpSink(f"{server.url}/in", headers={"x-token": "t"}), [{"n": 1}, Row(a=2)])
    assert sorted(server.bodies) == [b'{"a":2}', b'{"n":1}']
    got = server.requests[0]
    assert (got.method, got.path) == ("POST", "/in")
    assert got.headers["Content-Type"] == "application/json"
    assert got.headers["X-Token"] == "t"


@pytest.mark.parametrize(
    ("framing", "expected", "kind"),
    [
        ("json_array", [b"[0,1,2]", b"[3,4]"], "application/json"),
        ("ndjson", [b"0\n1\n2\n", b"3\n4\n"], "application/x-ndjson"),
    ],
)
def test_records_go_together(framing, expected, kind):
    with http_server() as server:
        send(HttpSink(server.url, framing=framing, max_batch_records=3), list(range(5)))
    assert sorted(server.bodies) == sorted(expected)
    assert {got.headers["Content-Type"] for got in server.requests} == {kind}


def test_a_batch_is_bounded_in_bytes():
    with http_server() as server:
        send(HttpSink(server.url, framing="ndjson", max_batch_bytes=20), ["x" * 10] * 10)
    assert max(map(len, server.bodies)) <= 40
    assert b"".join(server.bodies).count(b"\n") == 10


@pytest.mark.parametrize(
    "body",
    [SimpleStringSchema(), lambda v: v.encode(), lambda v: v],
    ids=["schema", "bytes", "str"],
)
def test_body_is_serialized_as_configured(body):
    with http_server() as server:
        send(HttpSink(server.url, method="PUT", body=body), ["é"])
    assert server.bodies == ["é".encode()]
    assert server.requests[0].method == "PUT"


def test_each_record_may_have_its_url_and_batches_do_not_mix():
    with http_server() as server:
        sink = HttpSink(lambda n: f"{server.url}/{n % 2}", framing="json_array")
        send(sink, list(range(6)))
    assert {(got.path, got.body) for got in server.requests} == {
        ("/0", b"[0,2,4]"),
        ("/1", b"[1,3,5]"),
    }


@pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503, 504])
def test_temporary_failures_are_retried(status):
    with http_server(flaky(status, status)) as server:
        send(HttpSink(server.url), [1])
    assert server.bodies == [b"1"] * 3


def test_the_server_says_when_to_come_again():
    pauses = []
    with http_server(flaky(429, headers={"Retry-After": "7"})) as server:
        writer = opened(HttpSink(server.url))
        writer._client.wait = pauses.append
        writer.write([1], None, 0)
        writer.prepare_commit()
        writer.close()
    assert pauses == [7.0]
    assert server.bodies == [b"1"] * 2


def test_a_server_that_is_away_for_a_while_is_waited_for():
    with reserved_port() as port:
        writer = opened(HttpSink(f"http://127.0.0.1:{port}", retry_timeout_ms=600_000))
        writer.write([1, 2], None, 0)
        wait_until(lambda: writer._client.retries >= 2)
        with http_server(port=port) as late:
            writer.prepare_commit()
            writer.close()
    assert sorted(late.bodies) == [b"1", b"2"]


def test_a_server_that_stays_away_fails_with_its_address():
    with reserved_port() as port:
        url = f"http://127.0.0.1:{port}"
        with pytest.raises(ConnectionFailedError, match=url):
            send(HttpSink(url, retry_timeout_ms=300), [1])


@pytest.mark.parametrize("status", [301, 400, 401, 404, 409, 413, 422])
def test_rejected_record_fails_at_once(status):
    with (
        http_server(lambda _: (status, {}, b"because")) as server,
        pytest.raises(RecordError) as caught,
    ):
        send(HttpSink(server.url), [{"n": 1}])
    assert len(server.requests) == 1
    assert f"{status}: because" in caught.value.detail
    assert "{'n': 1}" in caught.value.detail


def test_rejected_records_can_be_passed_to_a_function():
    rejected = []
    with http_server(lambda got: (400 if b"2" in got.body else 200, {}, b"two")) as server:
        send(HttpSink(server.url, on_rejected=rejected.append), [1, 2, 3])
    ((record, status, reason),) = [(r.record, r.status, r.reason) for r in rejected]
    assert (record, status, reason) == (2, 400, "two")


def test_rejected_records_can_go_to_another_sink_with_its_commits():
    class Consumer:
        def put(self, checkpoint_id, elements):
            found.extend(elements)

    found = []
    with http_server(lambda _: (422, {}, b"no")) as server:
        sink = HttpSink(server.url, framing="json_array", on_rejected=CollectSink(Consumer()))
        committables = send(sink, [1, 2])
    assert found == []
    sink.create_committer().commit(CommitRequest(1, committables))
    assert sorted(each.record for each in found) == [1, 2]
    assert json.loads(str(found[0]))["status"] == 422


def test_no_more_requests_are_on_their_way_than_allowed():
    three = threading.Barrier(3, timeout=60)

    def together(_):
        three.wait()
        return 200, {}, b""

    with http_server(together) as server:
        send(HttpSink(server.url, max_in_flight=3), list(range(30)))
    assert server.most_at_once == 3
    assert len(server.requests) == 30


def test_a_writer_takes_no_more_records_while_as_many_are_unanswered_as_may_be(
    monkeypatch,
):
    go, waits = threading.Event(), threading.Event()

    def wait_for(futures, **options):
        waits.set()
        return wait(futures, **options)

    wait = sink_module.wait
    monkeypatch.setattr(sink_module, "wait", wait_for)

    def held(_):
        go.wait(60)
        return 200, {}, b""

    with http_server(held) as server:
        writer = opened(HttpSink(server.url, max_in_flight=2))
        writing = threading.Thread(target=writer.write, args=(list(range(10)), None, 0))
        writing.start()
        assert waits.wait(60)
        assert len(writer._in_flight) == 2
        wait_until(lambda: len(server.requests) == 2)
        assert writing.is_alive()
        go.set()
        writing.join(60)
        writer.prepare_commit()
        writer.close()
    assert len(server.requests) == 10


def test_one_at_a_time_keeps_the_order_over_retries():
    with http_server(flaky(200, 503, 200, 503, 503)) as server:
        send(HttpSink(server.url, max_in_flight=1), list(range(5)))
    order = list(dict.fromkeys(server.bodies))
    assert order == [b"0", b"1", b"2", b"3", b"4"]


def test_the_key_of_a_record_is_the_same_in_every_attempt():
    with http_server(flaky(503, 503)) as server:
        sink = HttpSink(server.url, idempotency_key=lambda n: f"key-{n}")
        send(sink, [7])
        send(sink, [7])  # as after a failure
    assert [got.headers["Idempotency-Key"] for got in server.requests] == ["key-7"] * 4


def test_a_batch_is_sent_when_its_time_has_come():
    with http_server() as server:
        writer = opened(HttpSink(server.url, framing="ndjson", linger_ms=50))
        assert writer.next_wakeup() is None
        before = clock.now_ms()
        writer.write([1], None, 0)
        assert before + 50 <= writer.next_wakeup() <= clock.now_ms() + 50
        assert server.requests == []
        writer.wake_up()
        assert writer.next_wakeup() is None
        writer.prepare_commit()
        writer.close()
    assert server.bodies == [b"1\n"]


def test_closing_ends_the_pauses_of_requests_to_a_server_that_is_away():
    with reserved_port() as port:
        writer = opened(HttpSink(f"http://127.0.0.1:{port}"))
        writer._client._backoff = Backoff(first_ms=3_600_000, longest_ms=3_600_000)
        writer.write([1], None, 0)
        wait_until(lambda: writer._client.retries == 1)
        writer.close()
        for thread in writer._threads._threads:
            thread.join(60)
            assert not thread.is_alive()


def test_closing_does_not_wait_for_an_answer():
    go, answered = threading.Event(), threading.Event()

    def held(_):
        go.wait(60)
        answered.set()
        return 200, {}, b""

    with http_server(held) as server:
        writer = opened(HttpSink(server.url))
        writer.write([1], None, 0)
        wait_until(lambda: server.requests)
        writer.close()
        assert not answered.is_set()
        go.set()


@pytest.mark.parametrize(
    ("arguments", "options", "error"),
    [
        (("ftp://x",), {}, ArgumentError),
        ((7,), {}, ArgumentTypeError),
        (("http://x",), {"method": "GET"}, ArgumentError),
        (("http://x",), {"framing": "xml"}, ArgumentError),
        (("http://x",), {"max_in_flight": 0}, ArgumentError),
        (("http://x",), {"body": 7}, ArgumentTypeError),
        (("http://x",), {"headers": {"a": 1}}, ArgumentTypeError),
        (("http://x",), {"on_rejected": "drop"}, ArgumentError),
        (("http://x",), {"framing": "ndjson", "idempotency_key": str}, ArgumentError),
    ],
)
def test_arguments_are_checked_at_once(arguments, options, error):
    with pytest.raises(error):
        HttpSink(*arguments, **options)


def test_value_without_json_form_is_named_in_the_error():
    with http_server() as server, pytest.raises(RecordError, match="object"):
        send(HttpSink(server.url), [object()])


def test_rejected_records_can_go_to_a_function_sink():
    with http_server(lambda _: (400, {}, b"")) as server:
        send(HttpSink(server.url, on_rejected=FunctionSink(refused.append)), [5])
    assert [each.record for each in refused] == [5]


refused: list = []
