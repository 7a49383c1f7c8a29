from __future__ import annotations

import pytest

from penstock.common import Configuration, ExecutionConfig
from penstock.errors import ArgumentError, ArgumentTypeError


@pytest.mark.parametrize(
    ("setting", "default", "value"),
    [
        ("parallelism", -1, 4),
        ("max_parallelism", -1, 256),
        ("auto_watermark_interval", 200, 50),
        ("latency_tracking_interval", 0, 10),
        ("task_cancellation_interval", 30_000, 5),
        ("task_cancellation_timeout", 180_000, 0),
        ("global_job_parameters", {}, {"a": "1"}),
    ],
)
def test_a_setting_has_its_default_and_keeps_its_value(setting, default, value):
    config = ExecutionConfig()
    assert getattr(config, f"get_{setting}")() == default
    assert getattr(config, f"set_{setting}")(value) is config
    assert getattr(config, f"get_{setting}")() == value


@pytest.mark.parametrize(
    ("setting", "getter", "default"),
    [
        ("closure_cleaner", "is_closure_cleaner_enabled", True),
        ("force_kryo", "is_force_kryo_enabled", False),
        ("force_avro", "is_force_avro_enabled", False),
        ("object_reuse", "is_object_reuse_enabled", False),
        ("auto_generated_uids", "has_auto_generated_uids_enabled", True),
    ],
)
def test_a_switch_can_be_turned_on_and_off(setting, getter, default):
    config = ExecutionConfig()
    read = getattr(config, getter)
    assert read() is default
    assert getattr(config, f"disable_{setting}")() is config
    assert read() is False
    getattr(config, f"enable_{setting}")()
    assert read() is True


def test_generic_types_and_compression_are_kept():
    config = ExecutionConfig().disable_generic_types().set_use_snapshot_compression(True)
    assert config.has_generic_types_disabled()
    assert config.is_use_snapshot_compression()
    assert not config.enable_generic_types().has_generic_types_disabled()


def test_settings_and_options_are_one():
    configuration = Configuration.from_dict({"parallelism.default": "3"})
    config = ExecutionConfig(configuration)
    assert config.get_parallelism() == 3
    config.set_auto_watermark_interval(10)
    assert configuration.to_dict()["pipeline.auto-watermark-interval"] == "10 ms"
    config.set_parallelism(ExecutionConfig.PARALLELISM_DEFAULT)
    assert not configuration.contains_key("parallelism.default")


def test_job_parameters_are_kept_as_text_and_replaced_as_a_whole():
    config = ExecutionConfig(Configuration.from_dict({"pipeline.global-job-parameters.old": "1"}))
    assert config.get_global_job_parameters() == {"old": "1"}
    config.set_global_job_parameters({"n": 5, "flag": True, "text": "a,b:c"})
    assert config.get_global_job_parameters() == {"n": "5", "flag": "true", "text": "a,b:c"}


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda config: config.set_parallelism(0), ArgumentError),
        (lambda config: config.set_parallelism("4"), ArgumentTypeError),
        (lambda config: config.set_parallelism(True), ArgumentTypeError),
        (lambda config: config.set_max_parallelism(32769), ArgumentError),
        (lambda config: config.set_auto_watermark_interval(-1), ArgumentError),
        (lambda config: config.set_auto_watermark_interval("1 s"), ArgumentTypeError),
        (lambda config: config.set_global_job_parameters([1]), ArgumentTypeError),
    ],
    ids=["zero", "text", "bool", "too many", "negative", "interval", "parameters"],
)
def test_arguments_are_checked_at_the_call(call, error):
    with pytest.raises(error):
        call(ExecutionConfig())


def test_equal_settings_make_equal_objects():
    assert ExecutionConfig().set_parallelism(2) == ExecutionConfig().set_parallelism(2)
    assert ExecutionConfig().set_parallelism(2) != ExecutionConfig()
    assert hash(ExecutionConfig()) == hash(ExecutionConfig())
