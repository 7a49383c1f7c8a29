"""A job that fails. Its arguments are options: `failing.py spark.master=yarn`."""

from __future__ import annotations

import sys

from penstock.common import Configuration
from penstock.datastream import StreamExecutionEnvironment

if __name__ == "__main__":
    settings = Configuration()
    settings.set_string("restart-strategy.type", "none")
    for pair in sys.argv[1:]:
        settings.set_string(*pair.split("=", 1))
    env = StreamExecutionEnvironment.get_execution_environment(settings)
    env.from_collection([1, 0]).map(lambda number: 1 // number).print()
    env.execute("failing")
