"""Mistakes that a job can notice while it runs are mentioned once, with numbers: in its log, and by the doctor."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from penstock.cep import CEP, Pattern
from penstock.cep.functions import PatternProcessFunction
from penstock.common import Row, Time, Types, WatermarkStrategy
from penstock.common.watermark_strategy import TimestampAssigner
from penstock.datastream import OutputTag, StreamExecutionEnvironment
from penstock.datastream.connectors.file_system import FileSource
from penstock.datastream.formats.changelog import DebeziumJsonDeserializationSchema
from penstock.datastream.formats.json import JsonLinesFormat, JsonRowDeserializationSchema
from penstock.datastream.functions import (
    CoFlatMapFunction,
    FlatMapFunction,
    KeyedProcessFunction,
    ProcessFunction,
    ProcessJoinFunction,
    ProcessWindowFunction,
    WindowFunction,
)
from penstock.jobmanager.diagnosis.metrics import read_figures
from penstock.jobmanager.diagnosis.rules.suspicious import suspicious_records
from penstock.table import (
    DataTypes,
    EnvironmentSettings,
    Schema,
    StreamTableEnvironment,
    TableEnvironment,
)
from penstock.table.expressions import col
from penstock.testing import MiniCluster
from penstock.windowing import TumblingEventTimeWindows
from tests.builders.cases import check_all
from tests.builders.tables import rows

NOW = 1_700_000_000_000
SECONDS = [1_700_000_000 + 30 * n for n in range(10)]


class AsIs(TimestampAssigner):
    def extract_timestamp(self, value: Any, record_timestamp: int) -> Any:
        return value


class Warnings(logging.Handler):
    """Keeps what the job manager says about suspicious records."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())

    def __enter__(self) -> list[str]:
        logging.getLogger("penstock.jobmanager.metrics.suspicious_record_counts").addHandler(self)
        return self.lines

    def __exit__(self, *_: object) -> None:
        logging.getLogger("penstock.jobmanager.metrics.suspicious_record_counts").removeHandler(
            self
        )


def _environment(parallelism: int = 1) -> StreamExecutionEnvironment:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(parallelism)
    return env


def _timed(env: StreamExecutionEnvironment, times: list[int]) -> Any:
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(AsIs())
    stream = env.from_collection(times, type_info=Types.LONG())
    return stream.rebalance().assign_timestamps_and_watermarks(strategy).name("with time")


# Timestamps


@pytest.mark.parametrize("mode", ["epochs", "pipelined"])
def test_timestamps_in_seconds_are_mentioned_once_with_both_dates(mode: str) -> None:
    with Warnings() as said, MiniCluster(mode=mode):
        env = _environment(2)
        windows = TumblingEventTimeWindows.of(Time.minutes(1))
        _timed(env, [SECONDS[0]] * 10).key_by(lambda _: 0).window(windows).reduce(max).print()
        client = env.execute_async("windows")
        client.get_job_execution_result().result(60)
        job = client._controller.view()
    (line,) = said  # how many subtasks have reported by then, is a matter of time
    assert re.sub(r"first \d+ records", "first records", line) == (
        "the timestamps of 'with time' do not look like milliseconds: 1700000000 is 1970-01-20 16:13:20, but "
        "2023-11-14 22:13:20 if it is in seconds (the first records all look like that); event timestamps are milliseconds since "
        "1970: convert them in the timestamp assigner (seconds * 1000), in SQL with TO_TIMESTAMP_LTZ(seconds, 0)"
    )
    (finding,) = suspicious_records(read_figures(job, NOW))
    assert finding.rule == "suspicious-records"
    assert finding.title == "the timestamps of 'with time' do not look like milliseconds"
    assert finding.figures["count"] == 10


def test_units_of_timestamps() -> None:
    day = 86_400_000
    cases: dict[str, tuple[list[int], str | None]] = {
        "seconds": (SECONDS, "in seconds"),
        "microseconds": ([1_700_000_000_000_000], "is after the year 9999, but 2023-11-14"),
        "nanoseconds": ([1_700_000_000_000_000_000], "in nanoseconds"),
        "milliseconds of today": ([NOW, NOW + 1], None),
        "small numbers of a test": ([0, 1, 100_000], None),
        "a day and a year of milliseconds": ([day, 365 * day], None),
        "events of January 1970 and later ones": ([1_200_000_000, NOW], None),
        "negative": ([-1_700_000_000], None),
        "whole seconds since a simulation began": ([15 * day, 15 * day + 1000, 16 * day], None),
        "a device that is up for a month": ([30 * day + 7, 30 * day + 1009], None),
        "numbers of the order of nanoseconds that are none": ([3_100_000_000_000_000_000], None),
        "the end of time": ([2**63 - 1], None),
        "whole thousands of seconds": ([1_700_000_000], "in seconds"),
        "no record": ([], None),
    }

    def check(case: tuple[list[int], str | None]) -> None:
        times, expected = case
        with Warnings() as said, MiniCluster():
            env = _environment()
            if times:
                _timed(env, times).print()
                env.execute()
        assert len(said) == (expected is not None), said
        assert all(str(expected) in line for line in said), said

    check_all(cases, check)


def _rowtime(env: TableEnvironment, path: Any, computed: str, watermark: str) -> list[Any]:
    env.execute_sql(
        f"CREATE TABLE t (x BIGINT, t AS {computed}, {watermark}) WITH ('connector' = 'filesystem', "
        f"'path' = '{path}', 'format' = 'csv')"
    )
    return rows(env.sql_query("SELECT x FROM t"))


def test_a_rowtime_of_seconds_is_mentioned_once(tmp_path: Any) -> None:
    (tmp_path / "rows").write_text("\n".join(map(str, SECONDS)) + "\n")
    cases = {
        "as milliseconds": ("TO_TIMESTAMP_LTZ(x, 3)", 1),
        "as seconds": ("TO_TIMESTAMP_LTZ(x, 0)", 0),
        "local": ("CAST(TO_TIMESTAMP_LTZ(x, 3) AS TIMESTAMP(3))", 1),
    }

    def check(case: tuple[str, int]) -> None:
        computed, expected = case
        with Warnings() as said, MiniCluster():
            env = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
            env.get_config().set("parallelism.default", "1")
            watermark = "WATERMARK FOR t AS t - INTERVAL '5' SECOND"
            assert len(_rowtime(env, tmp_path / "rows", computed, watermark)) == 10
        assert len(said) == expected
        assert all("1700000000 is 1970-01-20 16:13:20, but 2023-11-14" in line for line in said)

    check_all(cases, check)


def test_a_rowtime_of_seconds_over_a_stream_is_mentioned_once() -> None:
    schema = (
        Schema.new_builder()
        .column("x", DataTypes.BIGINT())
        .column_by_expression("t", "TO_TIMESTAMP_LTZ(x, 3)")
        .watermark("t", "t - INTERVAL '5' SECOND")
        .build()
    )
    with Warnings() as said, MiniCluster():
        env = _environment()
        kind = Types.ROW_NAMED(["x"], [Types.LONG()])
        stream = env.from_collection([Row(each) for each in SECONDS], kind)
        tables = StreamTableEnvironment.create(env)
        assert len(rows(tables.from_data_stream(stream, schema).select(col("x")))) == 10
    (line,) = said
    assert "1700000000 is 1970-01-20 16:13:20, but 2023-11-14" in line


# Results


def _flat_map(env: StreamExecutionEnvironment, function: Callable[[Any], Any]) -> Any:
    return env.from_collection(["to be", "or", "not"]).rebalance().flat_map(function).name("words")


class Word(FlatMapFunction):
    def flat_map(self, value: Any) -> Any:
        return value


@pytest.mark.parametrize("mode", ["epochs", "pipelined"])
def test_a_flat_map_that_returns_a_text_is_mentioned_once_and_gives_characters(mode: str) -> None:
    with Warnings() as said, MiniCluster(mode=mode):
        found = sorted(_flat_map(_environment(2), Word()).execute_and_collect())
    assert found == sorted("to beornot")
    (line,) = said
    assert line.startswith(
        "the function of 'words' returns a single value where several results are expected: "
    )
    assert " became " in line
    assert re.search(
        r"one for each character \([1-3] results? like this, [1-3] input records?\); ", line
    )
    assert "yield each result, or return a list" in line


def test_results_that_are_iterated() -> None:
    shown = {
        "a text": (lambda _: "ab", "'ab' became 2 records, one for each character"),
        "bytes": (lambda _: b"ab", "b'ab' became 2 records, one for each byte"),
        "a dictionary": (lambda _: {"a": 1}, "{'a': 1} became 1 record, one for each key"),
        "a row": (lambda _: Row(1, 2), "<Row(1, 2)> became 2 records, one for each field"),
        "a list": (lambda word: [word], None),
        "a list of texts' characters": (list, None),
        "a tuple": (lambda word: (word, word), None),
        "a generator": (lambda word: (each for each in word), None),
        "nothing": (lambda _: None, None),
        "an empty text": (lambda word: [word] if word == "or" else "", None),
        "an empty dictionary": (lambda _: {}, None),
        "a character": (lambda word: word[0], None),
        "a byte": (lambda word: word[:1].encode(), "b't' became 1 record, one for each byte"),
        "a range": (lambda word: range(len(word)), None),
        "words": (str.split, None),
    }

    def check(case: tuple[Callable[[Any], Any], str | None]) -> None:
        function, expected = case
        with Warnings() as said, MiniCluster():
            list(_flat_map(_environment(), function).execute_and_collect())
        assert len(said) == (expected is not None)
        assert all(str(expected) in line for line in said), said

    check_all(shown, check)


class Process(ProcessFunction):
    def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Any:
        return "ab"


class KeyedProcess(KeyedProcessFunction):
    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Any:
        ctx.timer_service().register_event_time_timer(5)

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Any:
        return "ab"


class CoFlatMap(CoFlatMapFunction):
    def flat_map1(self, value: Any) -> Any:
        return []

    def flat_map2(self, value: Any) -> Any:
        return "ab"


class Apply(WindowFunction):
    def apply(self, key: Any, window: Any, inputs: Any) -> Any:
        return "ab"


class Window(ProcessWindowFunction):
    def process(self, key: Any, context: Any, elements: Any) -> Any:
        return "ab"

    def clear(self, context: Any) -> None:
        pass


class Joined(ProcessJoinFunction):
    def process_element(self, left: Any, right: Any, ctx: Any) -> Any:
        return "ab"


class Match(PatternProcessFunction):
    def process_match(self, match: Any, ctx: Any) -> Any:
        return "ab"


def _functions(one: Any) -> dict[str, Callable[[], Any]]:
    """Return what makes a stream for each kind of function that gives several results."""
    keyed = one.key_by(lambda _: 0)
    window = TumblingEventTimeWindows.of(Time.milliseconds(10))
    joined = keyed.interval_join(keyed).between(Time.milliseconds(-1), Time.milliseconds(1))
    return {
        "process": lambda: one.process(Process()),
        "process with dead letters": lambda: one.process(Process()).on_error(OutputTag("bad")),
        "flat_map with dead letters": lambda: one.flat_map(lambda _: "ab").on_error(
            OutputTag("bad")
        ),
        "timer": lambda: keyed.process(KeyedProcess()),
        "co_flat_map": lambda: one.connect(one).flat_map(CoFlatMap()),
        "window function": lambda: keyed.window(window).apply(Apply()),
        "process window function": lambda: keyed.window(window).process(Window()),
        "interval join": lambda: joined.process(Joined()),
        "pattern": lambda: CEP.pattern(keyed, Pattern.begin("a")).process(Match()),
    }


def test_all_functions_that_give_several_results_are_looked_at() -> None:
    def check(name: str) -> None:
        with Warnings() as said, MiniCluster():
            stream = _functions(_timed(_environment(), [1]))[name]()
            assert list(stream.execute_and_collect()) == ["a", "b"]
        assert len(said) == 1
        assert "'ab' became 2 records" in said[0]

    names = _functions(_timed(_environment(), [1]))
    check_all({name: name for name in names}, check)


# Fields of JSON


COLUMNS = "`userId` STRING, `at` BIGINT, `where` ROW<`City` STRING>, `steps` ARRAY<ROW<`No` INT>>"


def _read_json(tmp_path: Path, lines: list[str], columns: str, more: str = "") -> list[Any]:
    (tmp_path / "rows").write_text("\n".join(lines) + "\n")
    with MiniCluster():
        env = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
        env.get_config().set("parallelism.default", "1")
        env.execute_sql(
            f"CREATE TABLE t ({columns}) WITH ('connector' = 'filesystem', 'path' = '{tmp_path / 'rows'}', 'format' = 'json'{more})"
        )
        return rows(env.sql_query("SELECT * FROM t"))


def test_fields_in_another_case_are_mentioned_once_with_numbers(tmp_path: Path) -> None:
    lines = ['{"userid": "ann", "at": 1}', '{"userId": "bob", "at": 2}', '{"USERID": "cid"}']
    with Warnings() as said:
        found = _read_json(tmp_path, lines, "`userId` STRING, `at` BIGINT")
    assert found == [(None, 1), ("bob", 2), (None, None)]  # as Flink reads it
    (line,) = said
    assert line == (
        "records of 'Source: t[1]' have fields whose names differ from columns only in case: column 'userId' is NULL, and "
        "the record has a field 'userid' (2 of the first 3 records); JSON field names are case-sensitive, as in "
        "Flink: give the column the name of the field, in backticks if necessary"
    )


def test_fields_in_another_case(tmp_path: Path) -> None:
    exact = '{"userId": "ann", "at": 1, "where": {"City": "X"}, "steps": [{"No": 1}]}'
    cases: dict[str, tuple[list[str], str | None]] = {
        "exact": ([exact] * 3, None),
        "missing": (['{"at": 1}', "{}"], None),
        "null": (['{"userId": null, "at": 1}'], None),
        "another field": (['{"user_id": "ann", "at": 1}'], None),
        "another case that is null": (['{"userid": null}'], None),
        "both": (['{"userId": "ann", "userid": "bob"}'], None),
        "null beside another case": (['{"userId": null, "userid": "bob"}'], None),
        "both, and then one": (['{"userId": 1, "userid": 2}', '{"userid": "bob"}'], None),
        "both in a row, and then one": (
            ['{"where": {"City": "X", "city": 1}}', '{"where": {"city": 2}}'],
            None,
        ),
        "in a row": (['{"where": {"city": "X"}}'], "column 'where.City' is NULL"),
        "in an array": (['{"steps": [{"No": 1}, {"no": 1}]}'], "column 'steps.No' is NULL"),
        "beyond the first hundred": ([exact] * 100 + ['{"userid": "ann"}'], None),
        "among the first hundred": (
            [exact] * 99 + ['{"userid": "ann"}'] * 9,
            "(1 of the first 100 records)",
        ),
    }

    def check(case: tuple[list[str], str | None]) -> None:
        lines, expected = case
        with Warnings() as said:
            assert len(_read_json(tmp_path, lines, COLUMNS)) == len(lines)
        assert len(said) == (expected is not None)
        assert all(str(expected) in line for line in said), said

    check_all(cases, check)


def test_a_field_that_is_a_column_itself_is_not_taken_for_another(tmp_path: Path) -> None:
    with Warnings() as said:
        found = _read_json(tmp_path, ['{"ID": 1}', '{"id": 2}'], "id INT, ID INT")
    assert found == [(None, 1), (2, None)]
    assert not said


ROW = Types.ROW_NAMED(["userId", "at"], [Types.STRING(), Types.LONG()])


def test_all_ways_to_read_json_look_at_names(tmp_path: Path) -> None:
    line = '{"userid": "ann", "at": 1}'
    change = f'{{"op": "c", "after": {line}}}'

    def stream(file_format: Any, content: str = line) -> Callable[[], Any]:
        def read() -> None:
            (tmp_path / "rows").write_text(f"{content}\n")
            source = FileSource.for_record_stream_format(file_format, str(tmp_path / "rows"))
            with MiniCluster():
                env = _environment()
                env.from_source(source.build(), WatermarkStrategy.no_watermarks(), "t").print()
                env.execute()

        return read

    lenient = ", 'json.ignore-parse-errors' = 'true'"
    columns = "`userId` STRING, `at` BIGINT"
    path = "`file.path` STRING NOT NULL METADATA"
    cases: dict[str, Callable[[], Any]] = {
        "lines of a type": stream(JsonLinesFormat(ROW)),
        "messages": stream(JsonRowDeserializationSchema.builder().type_info(ROW).build()),
        "changes": stream(DebeziumJsonDeserializationSchema(ROW), change),
        "tables": lambda: _read_json(tmp_path, [line], columns),
        "tables with nested columns": lambda: _read_json(tmp_path, [line], COLUMNS),
        "tables that ignore errors": lambda: _read_json(tmp_path, [line, "{"], columns, lenient),
        "tables with metadata": lambda: _read_json(tmp_path, [line], f"{columns}, {path}"),
    }

    def check(read: Callable[[], Any]) -> None:
        with Warnings() as said:
            read()
        assert len(said) == 1
        assert "column 'userId' is NULL, and the record has a field 'userid'" in said[0]
        assert "(1 of the first 1 record)" in said[0]

    check_all(cases, check)
