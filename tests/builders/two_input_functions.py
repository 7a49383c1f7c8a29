"""Functions of two inputs that tests share."""

from __future__ import annotations

from penstock.datastream import (
    BroadcastProcessFunction,
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
)
from penstock.datastream.state import MapStateDescriptor, ValueStateDescriptor

RULES = MapStateDescriptor("rules")
SUM = ValueStateDescriptor("sum")


class Label(CoMapFunction):
    """Says which input an element came from; even numbers of the first one are dropped."""

    def map1(self, value):
        return ("first", value) if value % 2 else None

    def map2(self, value):
        return "second", value


class Repeat(CoFlatMapFunction):
    """The first input's numbers that often, the second one's not at all."""

    def flat_map1(self, value):
        yield from [value] * value

    def flat_map2(self, value):
        return None


class Side(CoProcessFunction):
    """Emits (input, value, timestamp, watermark)."""

    def process_element1(self, value, ctx):
        yield 1, value, ctx.timestamp(), ctx.timer_service().current_watermark()

    def process_element2(self, value, ctx):
        return [(2, value, ctx.timestamp(), ctx.timer_service().current_watermark())]


class SharedSum(KeyedCoProcessFunction):
    """Adds the first input to a sum and subtracts the second; at a timer, 10 after each element, emits it."""

    def open(self, runtime_context):
        self.sum = runtime_context.get_state(SUM)

    def process_element1(self, value, ctx):
        self._add(value[1], ctx)

    def process_element2(self, value, ctx):
        self._add(-value[1], ctx)

    def _add(self, amount, ctx):
        self.sum.update((self.sum.value() or 0) + amount)
        if ctx.timestamp() is not None:
            ctx.timer_service().register_event_time_timer(ctx.timestamp() + 10)

    def on_timer(self, timestamp, ctx):
        yield ctx.get_current_key(), self.sum.value(), timestamp


class Price(BroadcastProcessFunction):
    """Looks names up in a price list; `None` as the price of a name removes it."""

    def process_element(self, value, ctx):
        yield value, ctx.get_broadcast_state(RULES).get(value)

    def process_broadcast_element(self, value, ctx):
        name, price = value
        if price is None:
            ctx.get_broadcast_state(RULES).remove(name)
        else:
            ctx.get_broadcast_state(RULES)[name] = price


class Scaled(KeyedBroadcastProcessFunction):
    """Sums the values of a key, times the broadcast factor; "reset" in the broadcast sets all sums to zero.

    A timer, 10 after each element, emits (key, sum, factor).
    """

    def open(self, runtime_context):
        self.sum = runtime_context.get_state(SUM)

    def process_element(self, value, ctx):
        factor = ctx.get_broadcast_state(RULES).get("factor") or 1
        self.sum.update((self.sum.value() or 0) + factor * value[1])
        if ctx.timestamp() is not None:
            ctx.timer_service().register_event_time_timer(ctx.timestamp() + 10)

    def process_broadcast_element(self, value, ctx):
        if value == "reset":
            ctx.apply_to_keyed_state(SUM, lambda key, state: state.update(0))
        elif value == "show":
            shown = []
            ctx.apply_to_keyed_state(SUM, lambda key, state: shown.append((key, state.value())))
            yield sorted(shown)
        else:
            ctx.get_broadcast_state(RULES).put("factor", value)

    def on_timer(self, timestamp, ctx):
        yield ctx.get_current_key(), self.sum.value(), ctx.get_broadcast_state(RULES).get("factor")


def key_of(value):
    return value[0]
