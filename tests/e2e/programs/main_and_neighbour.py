"""Uses functions of another module."""

from neighbour import Words, longest
from pyflink.common import Types
from pyflink.datastream import StreamExecutionEnvironment

env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
words = env.from_collection(["to be or not", "to do it today"], type_info=Types.STRING())
words.flat_map(Words(), Types.ROW([Types.STRING(), Types.INT()])).key_by(
    lambda row: row[1], Types.INT()
).reduce(longest).print()
env.execute("main and neighbour")
