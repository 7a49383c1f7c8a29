"""Windows and functions for aggregation in two stages."""

from __future__ import annotations

from penstock.datastream import AggregateFunction
from penstock.windowing import SlidingEventTimeWindows, TumblingEventTimeWindows

TUMBLING = TumblingEventTimeWindows(5, 0)


ASSIGNERS = [
    TUMBLING,
    TumblingEventTimeWindows(7, 3),
    SlidingEventTimeWindows(6, 2, 0),
    SlidingEventTimeWindows(5, 3, 1),
    SlidingEventTimeWindows(2, 5, 0),
]


def key_of(value):
    return value[0]


class Total(AggregateFunction):
    """(key, sum, count) with a list as accumulator, which add() and merge() change in place."""

    def create_accumulator(self):
        return [None, 0, 0]

    def add(self, value, accumulator):
        accumulator[0] = value[0]
        accumulator[1] += value[1]
        accumulator[2] += 1
        return accumulator

    def get_result(self, accumulator):
        return tuple(accumulator)

    def merge(self, acc_a, acc_b):
        acc_a[1] += acc_b[1]
        acc_a[2] += acc_b[2]
        return acc_a


def add_up(first, second):
    return first[0], first[1] + second[1]
