"""Records per second of message formats, against `json.loads` for each message, in one process: `python -m benchmarks.formats`.

Each way takes batches of 1000 messages; the figure is the best of several passes, so that a busy machine disturbs it less. All ways of one
direction take turns, pass by pass: what slows the machine slows all of them.
"""

from __future__ import annotations

import argparse
import json
import time

from penstock.common.serialization import ByteArraySchema, SimpleStringSchema
from penstock.common.typeinfo import Types
from penstock.datastream.formats.avro import (
    AvroRowDeserializationSchema,
    AvroRowSerializationSchema,
)
from penstock.datastream.formats.changelog import DebeziumJsonDeserializationSchema
from penstock.datastream.formats.csv import CsvRowDeserializationSchema, CsvRowSerializationSchema
from penstock.datastream.formats.json import (
    JsonDeserializationSchema,
    JsonRowDeserializationSchema,
    JsonRowSerializationSchema,
    JsonSerializationSchema,
)

BATCH = 1000
NAMES = ["id", "user", "amount", "currency", "ts", "ok"]
ROW = Types.ROW_NAMED(
    NAMES,
    [Types.LONG(), Types.STRING(), Types.DOUBLE(), Types.STRING(), Types.LONG(), Types.BOOLEAN()],
)
AVRO = json.dumps(
    {
        "type": "record",
        "name": "Order",
        "fields": [
            {"name": name, "type": kind}
            for name, kind in zip(
                NAMES, ["long", "string", "double", "string", "long", "boolean"], strict=True
            )
        ],
    }
)


def values(count):
    return [
        {
            "id": i,
            "user": f"user-{i % 100}",
            "amount": i * 1.25,
            "currency": "EUR",
            "ts": 1_700_000_000_000 + i,
            "ok": i % 2 == 0,
        }
        for i in range(count)
    ]


def one_by_one(messages):
    return [json.loads(message) for message in messages]


def dumped_one_by_one(records):
    return [json.dumps(record).encode() for record in records]


def reading(records):
    """Ways to read: (name, function of a batch, messages)."""
    messages = [json.dumps(record).encode() for record in records]
    events = [b'{"before":null,"after":%s,"op":"c"}' % message for message in messages]
    rows = [tuple(record.values()) for record in records]
    bad = [message[:-1] if i % 100 == 50 else message for i, message in enumerate(messages)]
    csv = CsvRowSerializationSchema.Builder(ROW).set_line_terminator("").build()
    return [
        ("json.loads, each", one_by_one, messages),
        ("bytes", ByteArraySchema().deserialize_batch, messages),
        ("text", SimpleStringSchema().deserialize_batch, messages),
        ("JSON values", JsonDeserializationSchema().deserialize_batch, messages),
        ("JSON values, 1 % malformed", JsonDeserializationSchema().deserialize_batch, bad),
        ("JSON rows", JsonRowDeserializationSchema(ROW).deserialize_batch, messages),
        ("Debezium JSON", DebeziumJsonDeserializationSchema(ROW).deserialize_batch, events),
        (
            "CSV rows",
            CsvRowDeserializationSchema.Builder(ROW).build().deserialize_batch,
            csv.serialize_batch(rows),
        ),
        (
            "Avro rows",
            AvroRowDeserializationSchema(avro_schema_string=AVRO).deserialize_batch,
            AvroRowSerializationSchema(avro_schema_string=AVRO).serialize_batch(records),
        ),
    ]


def writing(records):
    """Ways to write: (name, function of a batch, records)."""
    csv = CsvRowSerializationSchema.Builder(ROW).set_line_terminator("").build()
    avro = AvroRowSerializationSchema(avro_schema_string=AVRO)
    return [
        ("json.dumps, each", dumped_one_by_one, records),
        ("JSON values", JsonSerializationSchema().serialize_batch, records),
        ("JSON rows", JsonRowSerializationSchema(ROW).serialize_batch, records),
        ("CSV rows", csv.serialize_batch, records),
        ("Avro rows", avro.serialize_batch, records),
    ]


def measure(ways, passes):
    best = {name: float("inf") for name, _, _ in ways}
    for _ in range(passes):
        for name, function, items in ways:
            batches = [items[at : at + BATCH] for at in range(0, len(items), BATCH)]
            begun = time.perf_counter()
            for batch in batches:
                function(batch)
            best[name] = min(best[name], time.perf_counter() - begun)
    return {name: len(ways[0][2]) / seconds for name, seconds in best.items()}


def show(title, rates):
    base = next(iter(rates.values()))
    print(title)
    for name, rate in rates.items():
        print(f"  {name:<28}{rate:>14,.0f} records/s {rate / base:>7.1f} x")


def main():
    parser = argparse.ArgumentParser(description="records per second of message formats")
    parser.add_argument("--records", type=int, default=20_000)
    parser.add_argument("--passes", type=int, default=7)
    arguments = parser.parse_args()
    records = values(arguments.records)
    size = len(json.dumps(records[0]).encode())
    print(f"{arguments.records} records of about {size} bytes as JSON, batches of {BATCH}")
    show("reading", measure(reading(records), arguments.passes))
    show("writing", measure(writing(records), arguments.passes))


if __name__ == "__main__":
    main()
