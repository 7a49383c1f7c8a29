"""The bulk writer against a server that answers what the test says; the real one is in tests/connectors/elasticsearch."""

from __future__ import annotations

import base64
import datetime as dt
import decimal
import json

import pytest

from penstock.common import Row
from penstock.connectors.base.sink import CheckpointContext, WriterContext
from penstock.datastream.connectors.base import DeliveryGuarantee
from penstock.datastream.connectors.elasticsearch import (
    BulkAction,
    Elasticsearch6SinkBuilder,
    Elasticsearch7SinkBuilder,
    ElasticsearchEmitter,
    FlushBackoffType,
)
from penstock.errors import (
    AccessRefusedError,
    ArgumentError,
    ArgumentTypeError,
    ConnectionFailedError,
    InvalidProgramError,
    RecordError,
)
from tests.builders.http_server import http_server

CONTEXT = WriterContext("job", "operator", 0, 1, "")


def builder(url, emitter=None):
    return (
        Elasticsearch7SinkBuilder()
        .set_hosts(url)
        .set_emitter(emitter or ElasticsearchEmitter.static_index("i", "id"))
        .set_bulk_flush_backoff_strategy(FlushBackoffType.CONSTANT, 3, 10)
    )


def send(sink, records):
    writer = sink.create_writer(CONTEXT)
    writer.begin(CheckpointContext(1, "a"))
    try:
        writer.write(records, None, 0)
        return writer.prepare_commit()
    finally:
        writer.close()


def actions_of(got):
    """Return what a bulk request asks for, as (operation, its head, its document)."""
    lines = [json.loads(line) for line in got.body.decode().splitlines()]
    found = []
    while lines:
        ((operation, head),) = lines.pop(0).items()
        found.append((operation, head, None if operation == "delete" else lines.pop(0)))
    return found


def bulk(decide):
    """Answer each item with the status that `decide(id, number of the request)` gives."""
    count = 0

    def answer(got):
        nonlocal count
        count += 1
        items = []
        for operation, head, _ in actions_of(got):
            status = decide(head.get("_id"), count)
            item = {"_index": head["_index"], "_id": head.get("_id"), "status": status}
            if status >= 300:
                item["error"] = {"type": "some_exception", "reason": f"said {status}"}
            items.append({operation: item})
        errors = any(next(iter(item.values()))["status"] >= 300 for item in items)
        return 200, {}, json.dumps({"took": 1, "errors": errors, "items": items}).encode()

    return answer


def ids(server):
    return [[head.get("_id") for _, head, _ in actions_of(got)] for got in server.requests]


def documents(*names):
    return [{"id": name, "n": at} for at, name in enumerate(names)]


def test_records_with_a_key_are_merged_into_their_document():
    with http_server(bulk(lambda *_: 200)) as server:
        send(builder(server.url).build(), [{"id": 7, "name": "ada"}])
    (got,) = server.requests
    assert got.path == "/_bulk"
    assert got.headers["Content-Type"] == "application/x-ndjson"
    assert actions_of(got) == [
        (
            "update",
            {"_index": "i", "_id": "7"},
            {"doc": {"id": 7, "name": "ada"}, "doc_as_upsert": True},
        )
    ]


def test_a_field_names_the_index_and_rows_are_documents():
    emitter = ElasticsearchEmitter.dynamic_index("at")
    with http_server(bulk(lambda *_: 201)) as server:
        send(builder(server.url, emitter).build(), [Row(at="x", n=1), {"at": "y", "n": 2}])
    assert [(op, head) for op, head, _ in actions_of(server.requests[0])] == [
        ("index", {"_index": "x"}),
        ("index", {"_index": "y"}),
    ]


def test_values_that_json_does_not_have_are_written():
    record = {"id": 1, "t": dt.datetime(2020, 1, 2), "d": decimal.Decimal("1.50"), "s": {2, 1}}
    with http_server(bulk(lambda *_: 200)) as server:
        send(builder(server.url).build(), [record])
    document = actions_of(server.requests[0])[0][2]["doc"]
    assert (document["t"], document["d"], document["s"]) == ("2020-01-02T00:00:00", "1.50", [1, 2])


def test_items_that_the_server_was_too_busy_for_are_sent_again_alone():
    with http_server(bulk(lambda name, n: 429 if name == "b" and n < 3 else 200)) as server:
        send(builder(server.url).build(), documents("a", "b", "c"))
    assert ids(server) == [["a", "b", "c"], ["b"], ["b"]]


def test_later_actions_on_the_same_document_are_resent_after_it():
    """Else the earlier action, sent again, would have the last word."""
    first = iter([429])
    with http_server(bulk(lambda name, n: next(first, 200) if name == "b" else 200)) as server:
        send(builder(server.url).build(), documents("a", "b", "c", "b"))
    assert ids(server) == [["a", "b", "c", "b"], ["b", "b"]]
    assert [doc["doc"]["n"] for _, _, doc in actions_of(server.requests[1])] == [1, 3]


def test_items_that_are_refused_fail_with_index_reason_and_record():
    with (
        http_server(bulk(lambda name, _: 400 if name == "b" else 200)) as server,
        pytest.raises(RecordError, match="index i") as caught,
    ):
        send(builder(server.url).build(), documents("a", "b"))
    assert "some_exception: said 400" in caught.value.detail
    assert "'id': 'b'" in caught.value.detail


def test_items_that_are_refused_may_go_to_a_side_output_while_others_are_tried_again():
    refused = []
    decide = {"a": 200, "b": 400}
    with http_server(bulk(lambda name, n: decide.get(name, 429 if n == 1 else 200))) as server:
        sink = builder(server.url).set_on_rejected(refused.append).build()
        send(sink, documents("a", "b", "c"))
    assert [each.record["id"] for each in refused] == ["b"]
    assert ids(server) == [["a", "b", "c"], ["c"]]


@pytest.mark.parametrize(("operation", "status"), [("create", 409), ("delete", 404)])
def test_repeated_actions_count_as_done(operation, status):
    emitter = ElasticsearchEmitter(lambda n: BulkAction(operation, "i", str(n), {"n": n}))
    with http_server(bulk(lambda *_: status)) as server:
        send(builder(server.url, emitter).build(), [1])
    assert len(server.requests) == 1


@pytest.mark.parametrize("status", [429, 502, 503])
def test_a_busy_server_is_asked_again(status):
    good = bulk(lambda *_: 200)
    answers = iter([status, status])
    with http_server(
        lambda got: (s, {}, b"") if (s := next(answers, None)) else good(got)
    ) as server:
        send(builder(server.url).build(), documents("a"))
    assert len(server.requests) == 3


def test_retries_have_an_end():
    with (
        http_server(bulk(lambda *_: 429)) as server,
        pytest.raises(ConnectionFailedError, match="1 bulk actions") as caught,
    ):
        send(builder(server.url).build(), documents("a"))
    assert len(server.requests) == 4
    assert "said 429" in caught.value.detail


def test_without_backoff_nothing_is_sent_again():
    with http_server(bulk(lambda *_: 429)) as server:
        strategy = builder(server.url)
        strategy.set_bulk_flush_backoff_strategy(FlushBackoffType.NONE, 0, 0)
        with pytest.raises(ConnectionFailedError):
            send(strategy.build(), documents("a"))
    assert len(server.requests) == 1


def test_another_host_is_asked_when_one_is_away():
    with http_server() as gone:
        pass
    with http_server(bulk(lambda *_: 200)) as server:
        send(builder([gone.url, server.url]).build(), documents("a"))
    assert ids(server) == [["a"]]


def test_a_request_that_is_too_large_is_sent_in_parts():
    good = bulk(lambda *_: 200)
    with http_server(
        lambda got: (413, {}, b"") if len(actions_of(got)) > 3 else good(got)
    ) as server:
        send(builder(server.url).build(), documents(*"abcdefgh"))
    assert [len(each) for each in ids(server)] == [8, 4, 2, 2, 4, 2, 2]


@pytest.mark.parametrize("status", [401, 403, 404])
def test_a_server_that_does_not_let_us_in_is_not_the_records_fault(status):
    refused = []
    with (
        http_server(lambda _: (status, {}, b"who are you")) as server,
        pytest.raises(AccessRefusedError, match="rejected the job's bulk requests"),
    ):
        send(builder(server.url).set_on_rejected(refused.append).build(), documents("a"))
    assert refused == []


def test_requests_are_bounded_in_actions_and_bytes():
    with http_server(bulk(lambda *_: 200)) as server:
        send(builder(server.url).set_bulk_flush_max_actions(2).build(), documents(*"abcde"))
        send(builder(server.url).set_bulk_flush_max_actions(-1).build(), documents(*"abcde"))
        big = builder(server.url).set_bulk_flush_max_size_mb(1).build()
        send(big, [{"id": n, "x": "y" * 400_000} for n in range(6)])
    assert [len(each) for each in ids(server)] == [2, 2, 1, 5, 3, 3]


def test_actions_are_sent_when_their_time_has_come():
    with http_server(bulk(lambda *_: 200)) as server:
        writer = builder(server.url).set_bulk_flush_interval(50).build().create_writer(CONTEXT)
        writer.begin(CheckpointContext(1, "a"))
        writer.write(documents("a"), None, 0)
        assert writer.next_wakeup() is not None
        writer.wake_up()
        assert writer.next_wakeup() is None
        assert ids(server) == [["a"]]
        writer.close()


def test_a_checkpoint_waits_for_all_actions():
    with http_server(bulk(lambda *_: 200)) as server:
        writer = builder(server.url).build().create_writer(CONTEXT)
        writer.begin(CheckpointContext(1, "a"))
        writer.write(documents("a"), None, 0)
        assert server.requests == []
        writer.prepare_commit()
        assert ids(server) == [["a"]]
        writer.close()


def test_without_a_guarantee_a_checkpoint_does_not_wait_and_the_end_sends_the_rest():
    with http_server(bulk(lambda *_: 200)) as server:
        sink = builder(server.url).set_delivery_guarantee(DeliveryGuarantee.NONE).build()
        writer = sink.create_writer(CONTEXT)
        writer.begin(CheckpointContext(1, "a"))
        writer.write(documents("a"), None, 0)
        writer.prepare_commit()
        assert server.requests == []
        writer.close()
        assert ids(server) == [["a"]]


def test_user_and_path_are_sent_and_the_password_is_not_shown():
    with http_server(bulk(lambda *_: 200)) as server:
        sink = (
            builder(server.url)
            .set_connection_username("ada")
            .set_connection_password("geheim")
            .set_connection_path_prefix("es/")
            .build()
        )
        send(sink, documents("a"))
    (got,) = server.requests
    assert got.path == "/es/_bulk"
    assert base64.b64decode(got.headers["Authorization"].removeprefix("Basic ")) == b"ada:geheim"
    assert "geheim" not in repr(sink.settings)


def test_version_6_has_types():
    emitter = ElasticsearchEmitter.static_index("i", "id", "person")
    action = Elasticsearch6SinkBuilder().set_hosts("h:1").set_emitter(emitter).build()
    (made,) = action.emitter.actions({"id": 1})
    assert b'"_type":"person"' in made.lines()


@pytest.mark.parametrize(
    "record", [{"name": "no id"}, {"id": None}, 7], ids=["no field", "null", "no document"]
)
def test_records_that_make_no_action_are_named(record):
    with pytest.raises(RecordError):
        ElasticsearchEmitter.static_index("i", "id").actions(record)


def test_arguments_are_checked_at_once():
    made = Elasticsearch7SinkBuilder()
    with pytest.raises(InvalidProgramError, match="emitter"):
        made.build()
    with pytest.raises(InvalidProgramError, match="hosts"):
        made.set_emitter(ElasticsearchEmitter.static_index("i")).build()
    with pytest.raises(ArgumentError, match="exactly-once") as caught:
        made.set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE)
    assert "key field" in caught.value.hint
    for wrong in (0, -2):
        with pytest.raises(ArgumentError):
            made.set_bulk_flush_max_actions(wrong)
    with pytest.raises(ArgumentTypeError):
        made.set_emitter(lambda r: r)
    with pytest.raises(ArgumentError):
        made.set_hosts("ftp://x")
    with pytest.raises(ArgumentError):
        made.set_hosts([])
    with pytest.raises(ArgumentTypeError):
        made.set_bulk_flush_backoff_strategy("often", 1, 1)
