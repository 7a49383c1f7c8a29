"""A job whose state is large: a payload for every key. Prints how many keys it has seen twice.

large_state.py <directory> <backend> <keys>
"""

from __future__ import annotations

import random
import sys

from penstock.common import Configuration, WatermarkStrategy
from penstock.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from penstock.datastream.connectors.number_seq import NumberSequenceSource
from penstock.datastream.state import ValueStateDescriptor

PAYLOAD = 2048
AGAIN = 1000


class Remember(KeyedProcessFunction):
    """Keeps bytes that belong to the key, and reports a key that comes again if they are still the same."""

    def open(self, runtime_context):
        self.payload = runtime_context.get_state(ValueStateDescriptor("payload"))

    def process_element(self, value, ctx):
        expected = random.Random(ctx.get_current_key()).randbytes(PAYLOAD)
        found = self.payload.value()
        if found is None:
            self.payload.update(expected)
        elif found == expected:
            yield ctx.get_current_key()


def main() -> None:
    directory, backend, keys = sys.argv[1], sys.argv[2], int(sys.argv[3])
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    env.configure(
        Configuration.from_dict(
            {
                "spark.master": "local[2]",
                "spark.local.dir": f"{directory}/spark",
                "spark.python.daemon.module": "limited_daemon",
                "state.backend.type": backend,
                "state.backend.rocksdb.block.cache-size": "16 mb",
                "state.backend.rocksdb.writebuffer.size": "16 mb",
                "penstock.state.spill-entries": "5000",
                "execution.checkpointing.interval": "2 s",
                "execution.checkpointing.dir": f"{directory}/checkpoints",
                "restart-strategy.type": "none",
            }
        )
    )
    numbers = NumberSequenceSource(0, keys + AGAIN - 1)
    stream = env.from_source(numbers, WatermarkStrategy.no_watermarks(), "numbers")
    again = stream.key_by(lambda number: number % keys).process(Remember())
    with again.execute_and_collect() as found:
        print(f"{len(set(found))} keys came again")


if __name__ == "__main__":
    main()
