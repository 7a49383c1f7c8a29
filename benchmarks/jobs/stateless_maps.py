"""A chain of five maps: what a record costs when nothing is kept."""

from __future__ import annotations

from engine import Run

run = Run()
Types = run.module("common").Types


def price(line):
    return int(line.split(",")[2])


env = run.environment()
cents = (
    run.lines(env)
    .map(price, Types.LONG())
    .map(lambda price: price * 2, Types.LONG())
    .map(lambda price: price + 7, Types.LONG())
    .map(lambda price: price % 1_000_003, Types.LONG())
    .map(str, Types.STRING())
)
run.write(cents)
run.execute(env)
