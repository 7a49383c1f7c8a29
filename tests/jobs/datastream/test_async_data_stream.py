"""The API: what it refuses, what it hands on, and whole programs."""

from __future__ import annotations

import asyncio

import pytest

from penstock.common import Duration, Row, Time, Types, WatermarkStrategy
from penstock.datastream import (
    AsyncDataStream,
    AsyncFunction,
    AsyncRetryStrategy,
    ProcessFunction,
    RuntimeExecutionMode,
    StreamExecutionEnvironment,
)
from penstock.datastream.async_functions import AsyncBatchFunction
from penstock.datastream.async_retry_strategies import (
    ExponentialBackoffDelayRetryStrategy,
    FixedDelayRetryStrategy,
    RetryPredicate,
)
from penstock.errors import ArgumentError, ArgumentTypeError, JobExecutionError, PenstockError
from penstock.graph.operator_specs import AsyncWaitSpec
from penstock.testing import MiniCluster

WAITS = {
    "ordered": AsyncDataStream.ordered_wait,
    "unordered": AsyncDataStream.unordered_wait,
}


class Square(AsyncFunction):
    """Gives way to others between question and answer, so that calls overlap."""

    async def async_invoke(self, value):
        for _ in range(value % 3):
            await asyncio.sleep(0)
        return [value * value]


class Squares(AsyncBatchFunction):
    max_batch_size = 7

    async def async_invoke_batch(self, values):
        await asyncio.sleep(0)
        assert len(values) <= 7
        return [[value * value] for value in values]


class NotAsync(AsyncFunction):
    def async_invoke(self, value):
        return [value]


class NotAsyncBatch(AsyncBatchFunction):
    def async_invoke_batch(self, values):
        return [[value] for value in values]


class AsyncTimeout(Square):
    async def timeout(self, value):
        return []


class NoPredicate(FixedDelayRetryStrategy):
    def get_retry_predicate(self):
        return None


class HugeBatch(Squares):
    max_batch_size = 0


class Impatient(Square):
    barrier_wait_millis = -1


@pytest.fixture
def env():
    return StreamExecutionEnvironment.get_execution_environment()


@pytest.fixture
def numbers(env):
    return env.from_collection(list(range(10)))


RETRY = FixedDelayRetryStrategy(3, 10, lambda results: not results, None)
SECOND = Time.seconds(1)


# What is refused


@pytest.mark.parametrize("wait", WAITS.values(), ids=WAITS)
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param((Square, SECOND), "an AsyncFunction object is required", id="a class"),
        pytest.param((lambda value: [value], SECOND), "an AsyncFunction is required", id="lambda"),
        pytest.param((None, SECOND), "an AsyncFunction is required, got None", id="no function"),
        pytest.param((NotAsync(), SECOND), "should be declared as 'async def'", id="a plain method"),
        pytest.param((NotAsyncBatch(), SECOND), "'async_invoke_batch' of class", id="plain batches"),
        pytest.param((AsyncTimeout(), SECOND), "must not be declared as 'async def'", id="timeout"),
        pytest.param((HugeBatch(), SECOND), "max_batch_size of the function", id="size of batches"),
        pytest.param((Impatient(), SECOND), "barrier_wait_millis of the", id="negative wait"),
        pytest.param((Square(), 5), "timeout must be a Time", id="a number as timeout"),
        pytest.param((Square(), None), "timeout must be a Time", id="no timeout"),
        pytest.param((Square(), Time(-1)), "timeout must be at least 0", id="negative timeout"),
        pytest.param((Square(), SECOND, 0), "capacity must be at least 1", id="no capacity"),
        pytest.param((Square(), SECOND, "9"), "capacity must be an int", id="capacity as text"),
        pytest.param((Square(), SECOND, 9, int), "output_type", id="no type information"),
    ],
)  # fmt: skip
def test_wrong_arguments_are_refused_when_the_step_is_added(numbers, wait, arguments, message):
    with pytest.raises(PenstockError, match=message):
        wait(numbers, *arguments)


@pytest.mark.parametrize(
    ("strategy", "timeout", "message"),
    [
        pytest.param(None, SECOND, "must not be None", id="no strategy"),
        pytest.param(3, SECOND, "an AsyncRetryStrategy is required", id="a number"),
        pytest.param(RETRY, Time(0), "a timeout is required", id="no timeout"),
        pytest.param(NoPredicate(1, 1), SECOND, "retry predicate of NoPredicate is None", id="none"),
    ],
)  # fmt: skip
@pytest.mark.parametrize(
    "wait", [AsyncDataStream.ordered_wait_with_retry, AsyncDataStream.unordered_wait_with_retry]
)
def test_wrong_retry_strategies_are_refused(numbers, wait, strategy, timeout, message):
    with pytest.raises(PenstockError, match=message):
        wait(numbers, Square(), timeout, strategy)


def test_non_stream_argument_is_rejected(env):
    with pytest.raises(ArgumentTypeError, match="data_stream must be a DataStream"):
        AsyncDataStream.ordered_wait([1, 2], Square(), SECOND)


@pytest.mark.parametrize(
    ("create", "message"),
    [
        (lambda: FixedDelayRetryStrategy(0, 1), "max_attempts must be greater than 0"),
        (lambda: FixedDelayRetryStrategy(1, 0), "backoff_time_millis must be greater than 0"),
        (lambda: FixedDelayRetryStrategy("1", 1), "max_attempts must be an int"),
        (lambda: ExponentialBackoffDelayRetryStrategy(1, 0, 1, 2.0), "initial_delay must be"),
        (lambda: ExponentialBackoffDelayRetryStrategy(1, 1, 0, 2.0), "max_retry_delay must be"),
        (lambda: ExponentialBackoffDelayRetryStrategy(1, 1, 1, 0), "multiplier must be greater"),
        (lambda: ExponentialBackoffDelayRetryStrategy(1, 1, 1, "2"), "multiplier must be a number"),
        (lambda: RetryPredicate(True, None), "result_predicate must be a function"),
        (lambda: RetryPredicate(None, "x"), "exception_predicate must be a function"),
    ],
)
def test_retry_strategies_check_their_arguments(create, message):
    with pytest.raises((ArgumentError, ArgumentTypeError), match=message):
        create()


def test_pauses_never_overflow():
    strategy = ExponentialBackoffDelayRetryStrategy(10**6, 10, 5000, 2.0)
    assert strategy.get_backoff_time_millis(10**6) == 5000


# What is handed on


@pytest.mark.parametrize(
    ("create", "expected"),
    [
        pytest.param(
            lambda stream: AsyncDataStream.ordered_wait(stream, Square(), Time.seconds(2)),
            {"ordered": True, "timeout": 2000, "capacity": 100, "retry_strategy": None},
            id="ordered",
        ),
        pytest.param(
            lambda stream: AsyncDataStream.unordered_wait(
                stream, Squares(), Duration.of_millis(5), capacity=3, output_type=Types.INT()
            ),
            {"ordered": False, "timeout": 5, "capacity": 3, "max_batch": 7, "barrier_wait": 1000},
            id="unordered batches",
        ),
        pytest.param(
            lambda stream: AsyncDataStream.ordered_wait_with_retry(
                stream, Square(), SECOND, RETRY, 9, Types.INT()
            ),
            {"ordered": True, "retry_strategy": RETRY, "capacity": 9, "max_batch": None},
            id="retries",
        ),
        pytest.param(
            lambda stream: AsyncDataStream.unordered_wait_with_retry(
                stream, Square(), Time(0), AsyncRetryStrategy.no_restart()
            ),
            {"ordered": False, "retry_strategy": None, "timeout": 0},
            id="no retries",
        ),
    ],
)
def test_the_arguments_reach_the_operator(numbers, create, expected):
    stream = create(numbers)
    spec = stream.transformation.spec
    assert isinstance(spec, AsyncWaitSpec)
    assert {name: getattr(spec, name) for name in expected} == expected
    assert stream.get_name() == "async wait operator"


# Programs


@pytest.mark.parametrize("function", [Square(), Squares()], ids=["one by one", "batches"])
@pytest.mark.parametrize("mode", list(RuntimeExecutionMode)[:2], ids=lambda mode: mode.name)
@pytest.mark.parametrize("keyed", [True, False], ids=["keyed", "not keyed"])
@pytest.mark.parametrize("wait", WAITS.values(), ids=WAITS)
def test_every_element_is_looked_up_once(env, wait, keyed, mode, function):
    env.set_parallelism(2)
    env.set_runtime_mode(mode)
    stream = env.from_collection(list(range(1000)))
    stream = stream.key_by(lambda n: n % 10) if keyed else stream.rebalance()
    with MiniCluster():
        found = list(wait(stream, function, SECOND, 10).execute_and_collect())
    assert sorted(found) == [n * n for n in range(1000)]


def test_ordered_results_are_in_order_in_a_program(env):
    env.set_parallelism(1)
    squares = AsyncDataStream.ordered_wait(env.from_collection(list(range(500))), Square(), SECOND)
    with MiniCluster():
        assert list(squares.execute_and_collect()) == [n * n for n in range(500)]


def test_calls_may_follow_calls_in_one_chain(env):
    env.set_parallelism(1)
    once = AsyncDataStream.unordered_wait(env.from_collection([1, 2, 3]), Square(), SECOND)
    twice = AsyncDataStream.ordered_wait(once, Square(), SECOND)
    with MiniCluster():
        assert sorted(twice.execute_and_collect()) == [1, 16, 81]


def test_results_get_their_declared_type(env):
    class Pairs(AsyncFunction):
        async def async_invoke(self, value):
            return [(value, "n")]

    kind = Types.ROW_NAMED(["id", "name"], [Types.INT(), Types.STRING()])
    rows = AsyncDataStream.ordered_wait(env.from_collection([1]), Pairs(), SECOND, 5, kind)
    with MiniCluster():
        assert list(rows.execute_and_collect()) == [Row(id=1, name="n")]
    assert rows.get_type() == kind


class Watermarks(ProcessFunction):
    """Shows each element with the watermark at which it arrives."""

    def process_element(self, value, ctx):
        yield value, ctx.timer_service().current_watermark()


@pytest.mark.parametrize("wait", WAITS.values(), ids=WAITS)
def test_an_element_arrives_before_the_watermark_that_followed_it(env, wait):
    env.set_parallelism(1)
    env.get_config().set_auto_watermark_interval(1)
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(
        lambda value, _: value
    )
    stream = env.from_collection(list(range(1, 300))).assign_timestamps_and_watermarks(strategy)
    roots = wait(stream, Square(), SECOND, 4).process(Watermarks())
    with MiniCluster():
        found = list(roots.execute_and_collect())
    assert sorted(value for value, _ in found) == [n * n for n in range(1, 300)]
    assert all(round(value**0.5) > watermark for value, watermark in found)


class Broken(AsyncFunction):
    def __init__(self, answer):
        self.answer = answer

    async def async_invoke(self, value):
        if value == 3:
            if isinstance(self.answer, Exception):
                raise self.answer
            return self.answer
        return [value]


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (None, "should be of list type"),
        (7, "should be of list type"),
        (LookupError("no such customer"), "no such customer"),
    ],
    ids=["nothing", "a number", "an exception"],
)
def test_a_bad_answer_fails_the_job_and_names_operator_and_record(env, answer, message):
    env.set_parallelism(1)
    stream = AsyncDataStream.unordered_wait(env.from_collection([1, 2, 3]), Broken(answer), SECOND)
    with MiniCluster(), pytest.raises(JobExecutionError, match=message) as caught:
        list(stream.name("customers").execute_and_collect())
    assert "customers" in str(caught.value)
    assert "record 3" in str(caught.value)
