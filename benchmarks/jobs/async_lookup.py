"""A lookup of 5 ms for each bid, up to 100 at a time, in order: what a call to a service costs."""

from __future__ import annotations

import asyncio

from engine import Run

run = Run()
common, datastream = run.module("common"), run.module("datastream")
Types, Time = common.Types, common.Time

LATENCY_S = 0.005


class Fee(datastream.AsyncFunction):
    async def async_invoke(self, value):
        await asyncio.sleep(LATENCY_S)
        price = int(value.split(",")[2])
        return [f"{price},{price // 100}"]


env = run.environment()
fees = datastream.AsyncDataStream.ordered_wait(
    run.lines(env), Fee(), Time.seconds(30), 100, Types.STRING()
)
run.write(fees)
run.execute(env)
