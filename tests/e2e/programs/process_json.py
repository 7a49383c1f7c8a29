"""Reads JSON out of rows, changes it, filters and sums it."""

import json

from pyflink.common import Row, Types
from pyflink.datastream import StreamExecutionEnvironment

env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)

source = env.from_collection(
    collection=[
        (1, '{"name": "Flink", "tel": 111, "addr": {"country": "Germany", "city": "Berlin"}}'),
        (2, '{"name": "hello", "tel": 135, "addr": {"country": "China", "city": "Shanghai"}}'),
        (3, '{"name": "world", "tel": 124, "addr": {"country": "USA", "city": "NewYork"}}'),
        (4, '{"name": "PyFlink", "tel": 32, "addr": {"country": "China", "city": "Hangzhou"}}'),
    ],
    type_info=Types.ROW_NAMED(["id", "info"], [Types.INT(), Types.STRING()]),
)


def update_tel(data):
    info = json.loads(data.info)
    info["tel"] += 1
    return Row(data.id, json.dumps(info))


def show(data):
    info = json.loads(data.info)
    return Row(country=info["addr"]["country"], tel=info["tel"], id=data.id)


updated = source.map(update_tel, output_type=source.get_type())
updated.print("updated")

shown = Types.ROW_NAMED(["id", "tel", "country"], [Types.INT(), Types.LONG(), Types.STRING()])
updated.map(show, shown).filter(lambda row: row.tel > 50).print("filtered")

updated.map(
    lambda data: (json.loads(data.info)["addr"]["country"], json.loads(data.info)["tel"])
).key_by(lambda pair: pair[0]).sum(1).print("summed")
env.execute("process json")
