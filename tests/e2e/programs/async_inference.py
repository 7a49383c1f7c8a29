"""Asks a slow service (here: a coroutine that sleeps) for each element."""

import asyncio

from pyflink.common import Time, Types
from pyflink.datastream import AsyncDataStream, AsyncFunction, StreamExecutionEnvironment


class Model(AsyncFunction):
    async def async_invoke(self, value):
        await asyncio.sleep(0.01 * (value % 3))
        return [(value, value * value)]

    def timeout(self, value):
        return [(value, -1)]


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)

questions = env.from_collection(list(range(8)), type_info=Types.INT())
answers = Types.TUPLE([Types.INT(), Types.INT()])
AsyncDataStream.unordered_wait(questions, Model(), Time.seconds(10), 4, answers).print("unordered")
env.execute("async inference")
