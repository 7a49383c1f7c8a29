"""What print() shows for values of all types."""

import datetime as dt
import decimal

from pyflink.common import Instant, Row, RowKind, Types
from pyflink.datastream import StreamExecutionEnvironment

env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
one = env.from_collection([1], type_info=Types.INT())


def show(name, values, kind=None):
    one.flat_map(lambda _: values, kind).print(name)


show("double", [1.0, 0.1, 1e10, 1e-5, 100.0, 1234567.125, 12345678.9, float("nan"), float("inf")],
     Types.DOUBLE())  # fmt: skip
show("float", [1.1, 0.1, 3.4e38, 16777216.0, 1e-5], Types.FLOAT())
show("boolean", [True, False], Types.BOOLEAN())
show("long", [2**62, -1], Types.LONG())
show("byte", [-128, 127], Types.BYTE())
show("string", ["a", "", "ä 漢"], Types.STRING())
show("big dec", [decimal.Decimal("1.50"), decimal.Decimal(-2)], Types.BIG_DEC())
show("date", [dt.date(2024, 2, 29)], Types.SQL_DATE())
show("time", [dt.time(1, 2, 3)], Types.SQL_TIME())
show("timestamp", [dt.datetime(2024, 2, 29, 1, 2, 3, 456000)], Types.SQL_TIMESTAMP())
show("tuple in tuple", [("a", (1, 2.5))],
     Types.TUPLE([Types.STRING(), Types.TUPLE([Types.INT(), Types.DOUBLE()])]))  # fmt: skip
show("row in tuple", [("a", Row(1, None))],
     Types.TUPLE([Types.STRING(), Types.ROW([Types.INT(), Types.STRING()])]))  # fmt: skip
show("row in row", [Row("a", Row(1, 2.5))],
     Types.ROW([Types.STRING(), Types.ROW([Types.INT(), Types.DOUBLE()])]))  # fmt: skip
show("row kinds", [Row.of_kind(RowKind.DELETE, 1), Row.of_kind(RowKind.UPDATE_AFTER, 2)],
     Types.ROW([Types.INT()]))  # fmt: skip
show("row of all", [Row(True, 1.5, "x", None, [1, 2], {"k": 1.0})],
     Types.ROW([Types.BOOLEAN(), Types.DOUBLE(), Types.STRING(), Types.INT(), Types.LIST(Types.INT()),
                Types.MAP(Types.STRING(), Types.DOUBLE())]))  # fmt: skip
show("tuple with list", [(1, ["a", "b"])], Types.TUPLE([Types.INT(), Types.LIST(Types.STRING())]))
show("list", [[1, 2], []], Types.LIST(Types.INT()))
show("map", [{"a": 1}], Types.MAP(Types.STRING(), Types.INT()))
show("row with arrays", [Row(["a", None], [1, 2])],
     Types.ROW([Types.BASIC_ARRAY(Types.STRING()), Types.PRIMITIVE_ARRAY(Types.INT())]))  # fmt: skip
show("instant", [Instant.of_epoch_milli(1700000000123)], Types.INSTANT())
show("not typed", [1, 1.0, "a", None, True, (1, "a", None), [1, 2], {"a": 1}, Row(1, "a")])
show(
    "tuple of pickled", [(1, {"a": (1, 2)})], Types.TUPLE([Types.INT(), Types.PICKLED_BYTE_ARRAY()])
)
env.execute("string forms")
