"""Functions that main_and_neighbour.py imports, here and in tasks."""

from pyflink.common import Row
from pyflink.datastream import FlatMapFunction


class Words(FlatMapFunction):
    def flat_map(self, value):
        for position, word in enumerate(value.split()):
            yield Row(word, position)


def longest(one, other):
    return one if len(one[0]) >= len(other[0]) else other
