"""Start a job with state that another system has: here the points that customers have collected so far.

Run it with `python examples/bootstrap_state.py`, or without Spark: `penstock run --no-spark examples/bootstrap_state.py`.
It writes a savepoint from a table, starts the job from it, and then looks at what the job's state has become.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import pandas as pd

from penstock import state
from penstock.common import Configuration, Types
from penstock.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from penstock.datastream.state import MapStateDescriptor, ValueStateDescriptor

POINTS = ValueStateDescriptor("points", Types.LONG())
BOUGHT = MapStateDescriptor("bought", Types.STRING(), Types.LONG())

# What the old system knew.
CUSTOMERS = pd.DataFrame({"customer": ["ann", "bob"], "points": [980, 40]})
PURCHASES = pd.DataFrame(
    {"customer": ["ann", "ann", "bob"], "item": ["tea", "jam", "tea"], "times": [12, 1, 3]}
)
# What happens now: (customer, item, points).
EVENTS = [("ann", "tea", 15), ("cid", "jam", 7), ("ann", "tea", 15), ("bob", "jam", 7)]


class Loyalty(KeyedProcessFunction):
    """Collects points, and gives a voucher whenever a customer has a thousand."""

    def open(self, runtime_context):
        self.points = runtime_context.get_state(POINTS)
        self.bought = runtime_context.get_map_state(BOUGHT)

    def process_element(self, value, ctx):
        customer, item, points = value
        total = (self.points.value() or 0) + points
        self.bought.put(item, (self.bought.get(item) or 0) + 1)
        if total >= 1000:
            total -= 1000
            yield f"voucher for {customer}"
        self.points.update(total)


def bootstrap(directory: str) -> str:
    """Write the savepoint that the job starts from."""
    writer = state.new_savepoint()
    writer.put_value("loyalty", POINTS, CUSTOMERS, key="customer", value="points")
    writer.put_map("loyalty", BOUGHT, PURCHASES, key="customer", map_key="item", value="times")
    return writer.write(directory)


def run(directory: str, savepoint: str) -> None:
    """Run the job; its checkpoints stay in the directory."""
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(2)
    env.configure(
        Configuration.from_dict(
            {
                "execution.state-recovery.path": savepoint,
                "execution.checkpointing.interval": "10 s",
                "execution.checkpointing.dir": f"{directory}/checkpoints",
            }
        )
    )
    events = env.from_collection(EVENTS)
    events.key_by(lambda event: event[0]).process(Loyalty()).uid("loyalty").print()
    env.execute("loyalty")


def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        savepoint = bootstrap(directory)
        run(directory, savepoint)
        (job,) = Path(directory, "checkpoints").iterdir()
        before, after = state.read(savepoint), state.read(job)
        print(after.state("loyalty", "bought", explode=True).to_pandas().to_string(index=False))
        changes = before.diff(after).to_pandas()
        columns = ["state", "key", "change", "before", "after"]
        print(changes[changes.operator == "loyalty"][columns].to_string(index=False))


if __name__ == "__main__":
    main()
