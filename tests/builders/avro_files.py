"""Avro files of pairs."""

from __future__ import annotations

import json

import fastavro

from penstock.datastream.formats.avro import AvroSchema

PAIR = AvroSchema.parse_string(
    '{"type": "record", "name": "Pair", "fields": [{"name": "n", "type": "int"}, {"name": "s", "type": "string"}]}'
)


def write_file(path, records, schema=PAIR, codec="null", **options):
    with path.open("wb") as file:
        fastavro.writer(file, json.loads(str(schema)), records, codec=codec, **options)


def pairs(count):
    return [{"n": n, "s": f"text {n}"} for n in range(count)]
