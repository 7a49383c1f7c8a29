"""Orders from Kafka, enriched from PostgreSQL, to Kafka: exactly once, with what is late or no order at all in a topic of its own.

`make demo-kafka` runs it against a broker and a database that it starts; with your own:

    penstock run examples/kafka_orders.py --kafka localhost:9092 --database jdbc:postgresql://localhost/shop --user me --password secret
"""

from __future__ import annotations

import argparse
import json
from typing import Any

from penstock.common import Duration, Row, SimpleStringSchema, Time, Types, WatermarkStrategy
from penstock.common.watermark_strategy import TimestampAssigner
from penstock.datastream import (
    AggregateFunction,
    AsyncDataStream,
    DataStream,
    OutputTag,
    ProcessWindowFunction,
    StreamExecutionEnvironment,
)
from penstock.datastream.connectors.base import DeliveryGuarantee
from penstock.datastream.connectors.jdbc import JdbcConnectionOptions, JdbcLookup
from penstock.datastream.connectors.kafka import (
    KafkaOffsetsInitializer,
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSource,
)
from penstock.datastream.formats.json import JsonRowDeserializationSchema
from penstock.datastream.window import TumblingEventTimeWindows

ORDERS, ENRICHED, TOTALS, DEAD_LETTERS = "orders", "orders-enriched", "totals", "dead-letters"
ORDER = Types.ROW_NAMED(
    ["id", "customer", "cents", "time"], [Types.LONG(), Types.INT(), Types.LONG(), Types.LONG()]
)
MALFORMED = OutputTag("malformed")
LATE = OutputTag("late")


class OrderTime(TimestampAssigner):
    def extract_timestamp(self, value: Row, record_timestamp: int) -> int:
        return value.time


class Sum(AggregateFunction):
    def create_accumulator(self) -> tuple[int, int]:
        return 0, 0

    def add(self, value: dict[str, Any], accumulator: tuple[int, int]) -> tuple[int, int]:
        return accumulator[0] + 1, accumulator[1] + value["cents"]

    def get_result(self, accumulator: tuple[int, int]) -> tuple[int, int]:
        return accumulator

    def merge(self, a: tuple[int, int], b: tuple[int, int]) -> tuple[int, int]:
        return a[0] + b[0], a[1] + b[1]


class Total(ProcessWindowFunction):
    def process(self, key: str, context: Any, elements: Any) -> Any:
        for orders, cents in elements:
            total = {"country": key, "from": context.window().start}
            yield {**total, "orders": orders, "cents": cents}


def enrich(order: Row, customers: list[Row]) -> list[dict[str, Any]]:
    """Join an order with its customer, or with no customer."""
    known = customers[0] if customers else None
    return [
        {
            "id": order.id,
            "cents": order.cents,
            "name": known.name if known else None,
            "country": known.country if known else "unknown",
        }
    ]


def malformed_letter(letter: Any) -> str:
    text = bytes(letter.record).decode(errors="replace")
    why = letter.message.partition("\n")[0]
    return json.dumps({**(letter.origin or {}), "message": text, "why": why})


def late_letter(order: dict[str, Any]) -> str:
    return json.dumps({"why": "late", **order})


def build(env: StreamExecutionEnvironment, kafka: str, database: JdbcConnectionOptions) -> None:
    """Add the program to an environment."""
    source = (
        KafkaSource.builder()
        .set_bootstrap_servers(kafka)
        .set_topics(ORDERS)
        .set_group_id("orders-demo")
        .set_starting_offsets(KafkaOffsetsInitializer.earliest())
        .set_value_only_deserializer(JsonRowDeserializationSchema(ORDER))
        .build()
    )
    times = (
        WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(2))
        .with_timestamp_assigner(OrderTime())
        .with_idleness(Duration.of_seconds(5))
    )
    orders = env.from_source(source, times, "orders").uid("orders").on_error(MALFORMED)
    customers = JdbcLookup("customers", ["id"], lambda order: order.customer, database, join=enrich)
    enriched = AsyncDataStream.unordered_wait(orders, customers, Time.seconds(30), 500).uid("join")
    totals = (
        enriched.key_by(lambda order: order["country"], Types.STRING())
        .window(TumblingEventTimeWindows.of(Time.seconds(5)))
        .side_output_late_data(LATE)
        .aggregate(Sum(), Total())
        .uid("totals")
    )
    dead = orders.get_side_output(MALFORMED).map(malformed_letter, Types.STRING())
    dead = dead.union(totals.get_side_output(LATE).map(late_letter, Types.STRING()))
    write(enriched.map(json.dumps, Types.STRING()), kafka, ENRICHED)
    write(totals.map(json.dumps, Types.STRING()), kafka, TOTALS)
    write(dead, kafka, DEAD_LETTERS)


def write(stream: DataStream, kafka: str, topic: str) -> None:
    """Send a stream of texts to a topic, in transactions that end with checkpoints."""
    schema = (
        KafkaRecordSerializationSchema.builder()
        .set_topic(topic)
        .set_value_serialization_schema(SimpleStringSchema())
        .build()
    )
    sink = (
        KafkaSink.builder()
        .set_bootstrap_servers(kafka)
        .set_record_serializer(schema)
        .set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE)
        .set_transactional_id_prefix(f"orders-demo-{topic}")
        .build()
    )
    stream.sink_to(sink).name(f"to {topic}").uid(f"to {topic}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kafka", required=True, help="host:port")
    parser.add_argument("--database", required=True, help="jdbc:postgresql://host:port/database")
    parser.add_argument("--user")
    parser.add_argument("--password")
    options = parser.parse_args()
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(2)
    env.enable_checkpointing(1000)
    connection = JdbcConnectionOptions.JdbcConnectionOptionsBuilder().with_url(options.database)
    if options.user:
        connection = connection.with_user_name(options.user).with_password(options.password or "")
    build(env, options.kafka, connection.build())
    env.execute("orders")


if __name__ == "__main__":
    main()
