"""JSON messages from Kafka to Kafka: as they are, through a Python function, or counted by user.

`--input` and `--output` are `host:port/topic`. The job ends at the end of the topic, or never.
"""

from __future__ import annotations

from engine import Run

run = Run(
    job=["map", "plain", "count"],
    guarantee=["AT_LEAST_ONCE", "EXACTLY_ONCE"],
    until=["end", "killed"],
)
common, functions = run.module("common"), run.module("datastream.functions")
kafka, base = run.module("datastream.connectors.kafka"), run.module("datastream.connectors.base")
json = run.module("datastream.formats.json")
Types, ValueStateDescriptor = common.Types, run.module("datastream.state").ValueStateDescriptor

PAYMENT = Types.ROW_NAMED(
    ["id", "user", "amount", "city", "due"],
    [Types.LONG(), Types.STRING(), Types.LONG(), Types.STRING(), Types.LONG()],
)
TOTAL = Types.ROW_NAMED(
    ["id", "user", "count", "due"], [Types.LONG(), Types.STRING(), Types.LONG(), Types.LONG()]
)


class Count(functions.KeyedProcessFunction):
    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value, ctx):
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield common.Row(value[0], value[1], count, value[4])


def source(address: str):
    servers, _, topic = address.partition("/")
    schema = json.JsonRowDeserializationSchema.builder().type_info(PAYMENT).build()
    builder = (
        kafka.KafkaSource.builder()
        .set_bootstrap_servers(servers)
        .set_topics(topic)
        .set_group_id(f"reader-of-{topic}")
        .set_starting_offsets(kafka.KafkaOffsetsInitializer.earliest())
        .set_value_only_deserializer(schema)
    )
    if run.args.until == "end":
        builder.set_bounded(kafka.KafkaOffsetsInitializer.latest())
    return builder.build()


def sink(address: str, kind):
    servers, _, topic = address.partition("/")
    values = json.JsonRowSerializationSchema.builder().with_type_info(kind).build()
    records = (
        kafka.KafkaRecordSerializationSchema.builder()
        .set_topic(topic)
        .set_value_serialization_schema(values)
        .build()
    )
    return (
        kafka.KafkaSink.builder()
        .set_bootstrap_servers(servers)
        .set_record_serializer(records)
        .set_delivery_guarantee(base.DeliveryGuarantee[run.args.guarantee])
        .set_transactional_id_prefix(f"writer-to-{topic}")
        .set_property("transaction.timeout.ms", "600000")
        .build()
    )


env = run.environment()
env.enable_checkpointing(1000)
payments = env.from_source(
    source(run.args.input), common.WatermarkStrategy.no_watermarks(), "payments"
)
if run.args.job == "map":
    payments = payments.map(lambda row: row, PAYMENT)
elif run.args.job == "count":
    payments = payments.key_by(lambda row: row[1], Types.STRING()).process(Count(), TOTAL)
payments.sink_to(sink(run.args.output, TOTAL if run.args.job == "count" else PAYMENT))
run.execute(env)
