"""Jobs whose keys are lists, on both backends."""

from __future__ import annotations

import pytest

from penstock import state
from penstock.common import Configuration, Duration, Types, WatermarkStrategy
from penstock.datastream import AggregateFunction, KeyedProcessFunction
from penstock.datastream.state import ValueStateDescriptor
from penstock.datastream.window import TumblingEventTimeWindows
from penstock.errors import JobExecutionError
from tests.builders.clusters import own_cluster
from tests.builders.environments import configured

RECORDS = [(["a", "b"], 1), (["a"], 2), (["a", "b"], 3), ([], 4), (["a", "b"], 5)]
COUNTED = [([], 1), (["a"], 1), (["a", "b"], 1), (["a", "b"], 2), (["a", "b"], 3)]


class Count(KeyedProcessFunction):
    """Counts the records of a key, and checks that timers belong to it."""

    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.INT()))

    def process_element(self, value, ctx):
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        assert ctx.get_current_key() == value[0]
        ctx.timer_service().register_event_time_timer(10)
        yield ctx.get_current_key(), count

    def on_timer(self, timestamp, ctx):
        assert self.count.value() >= 1
        return ()


@pytest.fixture(params=["hashmap", "rocksdb"])
def backend(request):
    return request.param


@pytest.fixture(params=[1, 4])
def env(request, backend, tmp_path):
    options = {
        "state.backend.type": backend,
        "parallelism.default": str(request.param),
        "execution.checkpointing.interval": "1 h",
        "restart-strategy.type": "none",
        "execution.checkpointing.dir": str(tmp_path / "checkpoints"),
    }
    return configured(options)


def counts(env, records, key=lambda record: record[0], **options):
    env.configure(Configuration.from_dict(options))
    stream = env.from_collection(records).key_by(key).process(Count()).uid("counts")
    with own_cluster():
        return sorted(stream.execute_and_collect())


def test_records_with_equal_lists_have_one_state(env, tmp_path):
    assert counts(env, RECORDS) == COUNTED


def test_the_tables_of_state_show_lists(env, tmp_path):
    counts(env, RECORDS)
    (job,) = (tmp_path / "checkpoints").iterdir()
    table = state.read(job).state("counts", "count")
    assert sorted(table) == [([], 1), (["a"], 1), (["a", "b"], 3)]
    frame = table.to_pandas()
    assert sorted(map(list, frame.key)) == [[], ["a"], ["a", "b"]]


def test_job_resumes_from_a_savepoint_with_list_keys(env, tmp_path):
    writer = state.new_savepoint(max_parallelism=128)
    writer.put_value("counts", "count", [(["a", "b"], 10)], type_info=Types.INT())
    path = writer.write(str(tmp_path / "savepoints"))
    found = counts(env, RECORDS, **{"execution.state-recovery.path": path})
    assert found == [([], 1), (["a"], 1), (["a", "b"], 11), (["a", "b"], 12), (["a", "b"], 13)]


class Sum(AggregateFunction):
    def create_accumulator(self):
        return 0

    def add(self, value, accumulator):
        return accumulator + value[1]

    def get_result(self, accumulator):
        return accumulator

    def merge(self, one, other):
        return one + other


@pytest.mark.parametrize("local_global", [False, True])
def test_windows_are_kept_per_list(env, local_global):
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(
        lambda record, _: record[1]
    )
    windows = (
        env.from_collection(RECORDS)
        .assign_timestamps_and_watermarks(strategy)
        .key_by(lambda record: record[0])
        .window(TumblingEventTimeWindows.of(Duration.of_millis(10)))
    )
    sums = windows.aggregate(Sum(), local_global=local_global)
    with own_cluster():
        assert sorted(sums.execute_and_collect()) == [2, 4, 9]


def test_a_dictionary_is_refused_and_the_record_and_operator_are_named(env):
    with pytest.raises(JobExecutionError) as caught:
        counts(env, RECORDS, key=lambda record: {"words": record[0]})
    text = str(caught.value)
    assert "keys of type dict are not supported" in text
    assert "'Source: Collection Source'" in text
    assert "(['a', 'b'], 1)" in text


class CountAndChangeTheKey(Count):
    def process_element(self, value, ctx):
        ctx.get_current_key().append("more")
        yield from super().process_element(value, ctx)


def test_a_function_that_changes_the_list_it_was_given_does_not_change_the_key(env):
    stream = env.from_collection(RECORDS).key_by(lambda record: record[0])
    with own_cluster():
        found = sorted(stream.process(CountAndChangeTheKey()).execute_and_collect())
    assert found == COUNTED
