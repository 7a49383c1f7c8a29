"""Programs with one record that cannot be processed, in each kind of place."""

from __future__ import annotations

import asyncio
from functools import partial

from penstock.common import Time
from penstock.datastream import (
    AsyncDataStream,
    AsyncFunction,
    KeyedProcessFunction,
    MapFunction,
)
from penstock.datastream.state import ValueStateDescriptor
from tests.jobs.replay.programs import key_of, read

BAD = 137  # of split 0
ALLOWED = set()  # what fails no more, in this process


class UnpaidError(Exception):
    pass


def check(value):
    amount = value[1]
    if amount == BAD and value[0].startswith("0-") and "pass" not in ALLOWED:
        raise UnpaidError(f"no account pays {amount}")
    return amount


class Price(MapFunction):
    def open(self, runtime_context):
        self.attempt = runtime_context.get_attempt_number()

    def map(self, value):
        amount = check(value)
        return value[0], amount, self.attempt


def in_a_map(env):
    return read(env).map(Price())


def in_a_lambda(env):
    return read(env).rebalance().filter(lambda value: check(value) >= 0)


def in_a_generator(env):
    def each(value):
        yield value
        yield check(value)

    return read(env).flat_map(each)


class Sum(KeyedProcessFunction):
    def open(self, runtime_context):
        self.sum = runtime_context.get_state(ValueStateDescriptor("sum"))

    def process_element(self, value, ctx):
        total = (self.sum.value() or 0) + check(value)
        self.sum.update(total)
        yield value[0], total


def in_a_keyed_process(env):
    return read(env).key_by(key_of).process(Sum())


def in_a_key_selector(env):
    return read(env).key_by(lambda value: check(value) % 2).reduce(lambda one, other: other)


class Remember(KeyedProcessFunction):
    def process_element(self, value, ctx):
        ctx.timer_service().register_event_time_timer(value[1] * 1_000)

    def on_timer(self, timestamp, ctx):
        yield check((ctx.get_current_key(), timestamp // 1_000))


def in_a_timer(env):
    return read(env).key_by(key_of).process(Remember())


def parse(base, value):
    return int(value, base)


def in_a_builtin(env):
    words = read(env).map(lambda value: "x" if value[1] == BAD else str(value[1]))
    return words.map(int)


def in_a_partial(env):
    words = read(env).map(lambda value: "x" if value[1] == BAD else str(value[1]))
    return words.map(partial(parse, 10))


class AskThePrice(AsyncFunction):
    async def async_invoke(self, value):
        await asyncio.sleep(0.001 * (value[1] % 3))
        return [check(value)]


def in_an_async_call(env):
    return AsyncDataStream.unordered_wait(read(env), AskThePrice(), Time.seconds(60), 10)
