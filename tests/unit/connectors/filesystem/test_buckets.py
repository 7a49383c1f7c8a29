"""Names of directories, rolling policies, names of files."""

from __future__ import annotations

import datetime as dt

import pytest

from penstock.connectors.filesystem.buckets import BucketAssigner, BucketContext, format_java
from penstock.connectors.filesystem.rolling import (
    FileCompactor,
    FileCompactStrategy,
    OutputFileConfig,
    RollingPolicy,
)
from penstock.errors import ArgumentError, ArgumentTypeError, RecordError

MOMENT = dt.datetime(2024, 3, 5, 17, 4, 9, 123456)


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("yyyy-MM-dd--HH", "2024-03-05--17"),
        ("yyyyMMdd/HHmmss", "20240305/170409"),
        ("yy.M.d", "24.3.5"),
        ("uuuu-DDD", "2024-065"),
        ("hh a K k", "05 PM 5 17"),
        ("HH:mm:ss.SSS", "17:04:09.123"),
        ("SSSSSSSSS", "123456000"),
        ("'dt='yyyy", "dt=2024"),
        ("yyyy''MM", "2024'03"),
        ("EEE MMM", "Tue Mar"),
    ],
)
def test_java_date_formats(pattern, text):
    assert format_java(pattern, MOMENT) == text


@pytest.mark.parametrize("pattern", ["yyyy-Q", "yyyy 'open", "'"])
def test_date_formats_that_cannot_work_are_refused_when_they_are_given(pattern):
    with pytest.raises(ArgumentError):
        BucketAssigner.date_time_bucket_assigner(pattern)


def test_an_unknown_time_zone_is_refused():
    with pytest.raises(ArgumentError, match="time zone"):
        BucketAssigner.date_time_bucket_assigner(timezone_id="Mars/Olympus")


@pytest.mark.parametrize(
    ("zone", "bucket"),
    [
        ("UTC", "2024-01-01--00"),
        ("Asia/Tokyo", "2024-01-01--09"),
        ("America/New_York", "2023-12-31--19"),
    ],
)
def test_buckets_by_time_follow_the_time_zone(zone, bucket):
    assigner = BucketAssigner.date_time_bucket_assigner(timezone_id=zone)
    assert assigner.assign(["a", "b"], [1, 2], 0, 1704067200000) == bucket
    assert assigner.get_bucket_id("a", BucketContext(1, 0, 1704067200000)) == bucket


def test_the_base_path_is_a_bucket():
    assert BucketAssigner.base_path_bucket_assigner().assign(["a"], None, 0, 0) == ""


def test_a_function_names_buckets():
    assigner = BucketAssigner.of(lambda value: f"key={value}")
    assert assigner.assign([1, 2], None, 0, 0) == ["key=1", "key=2"]
    timed = BucketAssigner.of(
        lambda v, c: f"{c.timestamp()}/{c.current_watermark()}/{c.current_processing_time()}"
    )
    assert timed.assign(["x"], [5], 6, 7) == ["5/6/7"]


def test_a_subclass_names_buckets():
    class ByLength(BucketAssigner):
        def get_bucket_id(self, element, context):
            return str(len(element))

    assert ByLength().assign(["a", "bb"], None, 0, 0) == ["1", "2"]


@pytest.mark.parametrize(
    "bucket", ["../up", "/absolute", "a//b", "a/../b", ".hidden", "a/_b", "a/.", 5, None, "a\0"]
)
def test_bucket_ids_that_leave_the_base_path_or_are_hidden_are_refused(bucket):
    with pytest.raises(RecordError, match="bucket id"):
        BucketAssigner.of(lambda value: bucket).assign([1], None, 0, 0)


@pytest.mark.parametrize(
    ("build", "error"),
    [
        pytest.param(lambda: BucketAssigner.of("name"), ArgumentTypeError, id="bucket function"),
        pytest.param(
            lambda: RollingPolicy.default_rolling_policy(part_size=0), ArgumentError, id="size 0"
        ),
        pytest.param(
            lambda: RollingPolicy.default_rolling_policy(rollover_interval=-1),
            ArgumentError,
            id="interval",
        ),
        pytest.param(
            lambda: RollingPolicy.default_rolling_policy(inactivity_interval="1s"),
            ArgumentTypeError,
            id="interval text",
        ),
        pytest.param(lambda: OutputFileConfig(".hidden", ""), ArgumentError, id="hidden prefix"),
        pytest.param(lambda: OutputFileConfig("a/b", ""), ArgumentError, id="prefix with slash"),
        pytest.param(lambda: OutputFileConfig("a", "/b"), ArgumentError, id="suffix with slash"),
        pytest.param(
            lambda: FileCompactStrategy.builder().build(), ArgumentError, id="no condition"
        ),
        pytest.param(
            lambda: FileCompactStrategy.builder().set_size_threshold(0),
            ArgumentError,
            id="threshold",
        ),
        pytest.param(
            lambda: FileCompactor.concat_file_compactor(3), ArgumentTypeError, id="delimiter"
        ),
    ],
)
def test_settings_are_checked_when_they_are_given(build, error):
    with pytest.raises(error):
        build()


def test_an_output_file_config_can_be_built():
    config = OutputFileConfig.builder().with_part_prefix("pre").with_part_suffix(".ext").build()
    assert (config.get_part_prefix(), config.get_part_suffix()) == ("pre", ".ext")
