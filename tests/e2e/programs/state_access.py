"""Keeps a sum per key in ValueState with a time to live, in a map and in a process function."""

from pyflink.common import Time, Types
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.functions import KeyedProcessFunction, MapFunction, RuntimeContext
from pyflink.datastream.state import (
    ListStateDescriptor,
    MapStateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)


class Sum(KeyedProcessFunction):
    def __init__(self):
        self.state = None

    def open(self, runtime_context: RuntimeContext):
        descriptor = ValueStateDescriptor("state", Types.FLOAT())
        ttl = (
            StateTtlConfig.new_builder(Time.seconds(100))
            .set_update_type(StateTtlConfig.UpdateType.OnReadAndWrite)
            .disable_cleanup_in_background()
            .build()
        )
        descriptor.enable_time_to_live(ttl)
        self.state = runtime_context.get_state(descriptor)

    def process_element(self, value, ctx: "KeyedProcessFunction.Context"):
        current = self.state.value()
        if current is None:
            current = 0
        current += value[1]
        self.state.update(current)
        yield value[0], current


class Seen(MapFunction):
    def open(self, runtime_context: RuntimeContext):
        self.seen = runtime_context.get_list_state(ListStateDescriptor("seen", Types.INT()))
        self.counts = runtime_context.get_map_state(
            MapStateDescriptor("counts", Types.INT(), Types.INT())
        )

    def map(self, value):
        self.seen.add(value[1])
        self.counts.put(value[1] % 2, (self.counts.get(value[1] % 2) or 0) + 1)
        return value[0], list(self.seen.get()), sorted(self.counts.items())


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)

stream = env.from_collection(
    collection=[
        ("Alice", 110), ("Bob", 30), ("Alice", 20), ("Bob", 53), ("Alice", 13), ("Bob", 60),
    ],
    type_info=Types.TUPLE([Types.STRING(), Types.INT()]),
)  # fmt: skip
keyed = stream.key_by(lambda value: value[0])
keyed.process(Sum(), Types.TUPLE([Types.STRING(), Types.FLOAT()])).print("sum")
keyed.map(Seen()).print("seen")
env.execute("state access")
