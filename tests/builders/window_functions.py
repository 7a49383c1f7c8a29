"""User functions of the window tests."""

from __future__ import annotations

from penstock.datastream import AggregateFunction
from penstock.windowing._state import InternalDescriptor


class Sum:
    """Adds up field 1 of (key, number) pairs and keeps the key."""

    def reduce(self, first, second):
        return (first[0], first[1] + second[1])


class SumAndCount:
    """An aggregate that emits (sum, count) of field 1."""

    def create_accumulator(self):
        return (0, 0)

    def add(self, value, accumulator):
        return (accumulator[0] + value[1], accumulator[1] + 1)

    def get_result(self, accumulator):
        return accumulator

    def merge(self, first, second):
        return (first[0] + second[0], first[1] + second[1])


class Trail:
    """A reduce whose result tells the order in which elements came."""

    def reduce(self, first, second):
        return (first[0], f"{first[1]}{second[1]}")


class Show:
    """Emits key, window and elements; remembers what was cleared."""

    def __init__(self):
        self.cleared = []
        self.opened = self.closed = 0

    def open(self, runtime_context):
        self.opened += 1

    def close(self):
        self.closed += 1

    def process(self, key, context, elements):
        yield key, context.window(), list(elements)

    def clear(self, context):
        self.cleared.append(context.window())


class StartEndCount:
    def process(self, key, context, elements):
        return [(context.window().start, context.window().end, len(elements))]


def by_field_0(value):
    return value[0]


def value_state(name):
    return InternalDescriptor(name, "value")


class Tag:
    is_output_tag = True

    def __init__(self, tag_id):
        self.tag_id = tag_id


class Count(AggregateFunction):
    """The number of elements."""

    def create_accumulator(self):
        return 0

    def add(self, value, accumulator):
        return accumulator + 1

    def get_result(self, accumulator):
        return accumulator

    def merge(self, acc_a, acc_b):
        return acc_a + acc_b


class CountInWords(Count):
    def get_result(self, accumulator):
        return f"{accumulator} elements"
