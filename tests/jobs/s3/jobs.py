"""Programs that keep everything they have on S3."""

from __future__ import annotations

import ast
import contextlib

from penstock.common import Types, WatermarkStrategy
from penstock.common.serialization import Encoder
from penstock.datastream.connectors.file_system import FileSink, RollingPolicy
from penstock.errors import JobCancelledError
from tests.builders import scripted
from tests.builders.environments import configured, restarts
from tests.builders.scripted import Script
from tests.builders.steps import before_each_epoch

# One list of numbers for each epoch.
EPOCHS = [list(range(start, start + 6)) for start in range(0, 24, 6)]
# What the sums by remainder are, number by number.
EXPECTED, EXPECTED_AFTER_TWO = (
    sorted((n % 3, sum(range(n % 3, n + 1, 3))) for n in range(count)) for count in (24, 12)
)


def environment(s3, directory="checkpoints", **options):
    settings = {
        "execution.checkpointing.interval": "1 ms",
        "execution.checkpointing.dir": s3.uri(directory),
        "penstock.state.inline-threshold": "1 b",
        "parallelism.default": "2",
        **restarts(5, "1 ms"),
        **options,
    }
    return configured(settings)


def sums(env, epochs=EPOCHS, source=None):
    """The stream of (remainder, sum so far) of the numbers."""
    pairs = Script([[((n % 3, n), n) for n in checkpoint_id] for checkpoint_id in epochs])
    numbers = env.from_source(
        source or pairs, WatermarkStrategy.no_watermarks(), "numbers", Types.PICKLED_BYTE_ARRAY()
    )
    keyed = numbers.uid("numbers").key_by(lambda pair: pair[0])
    return keyed.reduce(lambda one, other: (one[0], one[1] + other[1])).uid("sums")


def collect(env, **options):
    return [tuple(each) for each in scripted.collect(sums(env, **options))]


def write_files(env, s3, cluster=None, last=None, **options):
    """Run the job with its output in files, to its end or until the last epoch that it is to run."""
    sink = (
        FileSink.for_row_format(s3.uri("out"), Encoder.simple_string_encoder())
        .with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy())
        .build()
    )
    sums(env, **options).map(repr, Types.STRING()).sink_to(sink).uid("files")
    stop = once(last, lambda: cluster.masters[-1].cancel(graceful=True))
    with before_each_epoch(stop), contextlib.suppress(JobCancelledError):
        env.execute("files")


def written(s3):
    """Return what readers of the files see."""
    found = [name for name in s3.list("out") if "/." not in name]
    return sorted(
        ast.literal_eval(line)
        for name in found
        for line in s3.read(f"out/{name}").decode().splitlines()
    )


def once(checkpoint_id, act):
    """Act in one epoch, the first time that it comes."""
    done = []

    def maybe(found):
        if found == checkpoint_id and not done:
            done.append(True)
            act()

    return maybe


def fail():
    raise OSError("the test says so")
