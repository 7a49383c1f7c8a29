"""The operations on single elements, and side outputs."""

from pyflink.common import Row, Types
from pyflink.datastream import OutputTag, ProcessFunction, StreamExecutionEnvironment

env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)

numbers = env.from_collection([1, 2, 3, 4], type_info=Types.INT())
numbers.map(lambda n: n * n).print("squares, not typed")
numbers.map(lambda n: n / 2, Types.DOUBLE()).print("halves")
numbers.map(lambda n: n / 2, Types.INT()).print("cut off")
numbers.map(lambda n: (n, str(n), n > 2)).print("tuples, not typed")
numbers.map(
    lambda n: (n, str(n), n > 2), Types.TUPLE([Types.INT(), Types.STRING(), Types.BOOLEAN()])
).print("tuples")
numbers.map(lambda n: Row(n, str(n))).print("rows, not typed")
numbers.map(lambda n: Row(n, None), Types.ROW([Types.INT(), Types.STRING()])).print("rows")
numbers.map(
    lambda n: Row(name=str(n), id=n), Types.ROW_NAMED(["id", "name"], [Types.INT(), Types.STRING()])
).map(lambda row: f"{row.id} {row.name} {row}").print("names")
numbers.flat_map(lambda n: range(n), Types.INT()).print("ranges")
numbers.filter(lambda n: n % 2 == 0).print("even")
numbers.map(
    lambda n: (n, n * 2, n * 3), Types.TUPLE([Types.INT(), Types.INT(), Types.INT()])
).project(2, 0).print("projected")

odd = OutputTag("odd", Types.ROW([Types.STRING(), Types.LONG()]))


class Divide(ProcessFunction):
    def process_element(self, value, ctx: "ProcessFunction.Context"):
        if value % 2:
            yield odd, Row("odd", value)
        else:
            yield value


divided = numbers.process(Divide(), output_type=Types.INT())
divided.print("main")
divided.get_side_output(odd).print("side")
numbers.union(env.from_collection([10, 20], type_info=Types.INT())).print("united")
env.execute("basic operations")
