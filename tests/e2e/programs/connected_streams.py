"""Two streams in one operator, with and without keys, and a broadcast one."""

from pyflink.common import Row, Types
from pyflink.datastream import (
    BroadcastProcessFunction,
    CoFlatMapFunction,
    CoMapFunction,
    StreamExecutionEnvironment,
)
from pyflink.datastream.functions import KeyedCoProcessFunction
from pyflink.datastream.state import MapStateDescriptor, ValueStateDescriptor

env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)

numbers = env.from_collection([1, 2, 3], type_info=Types.INT())
words = env.from_collection(["a", "b"], type_info=Types.STRING())


class Shout(CoMapFunction):
    def map1(self, value):
        return None if value == 2 else f"number {value}"

    def map2(self, value):
        return f"word {value}"


class Repeat(CoFlatMapFunction):
    def flat_map1(self, value):
        for _ in range(value):
            yield value, "number"

    def flat_map2(self, value):
        yield 0, value


class Together(KeyedCoProcessFunction):
    def open(self, runtime_context):
        self.total = runtime_context.get_state(ValueStateDescriptor("total", Types.INT()))

    def _add(self, amount):
        total = (self.total.value() or 0) + amount
        self.total.update(total)
        return total

    def process_element1(self, value, ctx):
        self._add(value)
        return ()

    def process_element2(self, value, ctx):
        self._add(len(value))
        return ()


class Known(BroadcastProcessFunction):
    rules = MapStateDescriptor("rules", Types.STRING(), Types.BOOLEAN())

    def process_element(self, value, ctx):
        yield Row(value, ctx.get_broadcast_state(self.rules) is not None)

    def process_broadcast_element(self, value, ctx):
        ctx.get_broadcast_state(self.rules).put(str(value), True)


numbers.connect(words).map(Shout(), Types.STRING()).print("map")
numbers.connect(words).flat_map(Repeat(), Types.TUPLE([Types.INT(), Types.STRING()])).print(
    "flat map"
)
numbers.connect(words).key_by(lambda n: n % 2, len).process(Together(), Types.INT()).print("keyed")
words.connect(numbers.broadcast(Known.rules)).process(
    Known(), Types.ROW([Types.STRING(), Types.BOOLEAN()])
).print("broadcast")
env.execute("connected streams")
