"""Word count: the smallest program with a keyed stream. Run it with `python examples/word_count.py`."""

from __future__ import annotations

from penstock.common import Types
from penstock.datastream import StreamExecutionEnvironment

TEXT = [
    "to be or not to be that is the question",
    "whether tis nobler in the mind to suffer",
    "the slings and arrows of outrageous fortune",
]


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(2)
    (
        env.from_collection(TEXT, Types.STRING())
        .flat_map(str.split, Types.STRING())
        .map(lambda word: (word, 1), Types.TUPLE([Types.STRING(), Types.INT()]))
        .key_by(lambda pair: pair[0], Types.STRING())
        .reduce(lambda a, b: (a[0], a[1] + b[1]))
        .print()
    )
    env.execute("word count")


if __name__ == "__main__":
    main()
