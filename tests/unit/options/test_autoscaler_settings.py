"""The options of the autoscaler."""

from __future__ import annotations

import dataclasses

import pytest

from penstock.common import Configuration
from penstock.datastream import StreamExecutionEnvironment
from penstock.errors import ConfigurationError
from penstock.options.autoscaler_settings import AutoscalerSettings
from penstock.options.option_checks import validate


def read(**given):
    options = {f"job.autoscaler.{key}": value for key, value in given.items()}
    return AutoscalerSettings.from_configuration(Configuration.from_dict(options))


def test_the_defaults_of_the_options_are_those_of_the_settings():
    assert read() == AutoscalerSettings()


def test_every_option_reaches_its_setting():
    given = {
        "enabled": "true",
        "scaling.enabled": "false",
        "vertex.min-parallelism": "2",
        "vertex.max-parallelism": "8",
        "utilization.target": "0.6",
        "utilization.max": "0.9",
        "utilization.min": "0.3",
        "stabilization.interval": "10 s",
        "metrics.window": "20 s",
        "catch-up.duration": "1 min",
        "scale-down.interval": "2 min",
        "scale-down.max-factor": "0.5",
        "scale-up.max-factor": "3",
        "scaling.effectiveness.detection.enabled": "false",
        "scaling.effectiveness.threshold": "0.2",
    }
    found = read(**given)
    assert found == AutoscalerSettings(
        enabled=True,
        applies=False,
        min_parallelism=2,
        max_parallelism=8,
        target=0.6,
        max_utilization=0.9,
        min_utilization=0.3,
        stabilization_ms=10_000,
        window_ms=20_000,
        catch_up_ms=60_000,
        scale_down_ms=120_000,
        scale_down_factor=0.5,
        scale_up_factor=3.0,
        detects_effect=False,
        effect_threshold=0.2,
    )
    assert len(given) == len(dataclasses.fields(found))


def test_the_bounds_of_the_utilization_follow_the_target():
    found = read(**{"utilization.target": 0.5})
    assert (found.min_utilization, found.max_utilization) == (pytest.approx(0.2), 0.75)
    assert read(**{"utilization.target": 0.2}).min_utilization == 0
    assert read(**{"target.utilization": 0.5}) == found  # its older name


@pytest.mark.parametrize(
    ("given", "option"),
    [
        ({"vertex.min-parallelism": 9, "vertex.max-parallelism": 8}, "vertex.min-parallelism"),
        ({"vertex.min-parallelism": 300}, "vertex.min-parallelism"),
        ({"vertex.min-parallelism": 0}, "vertex.min-parallelism"),
        ({"utilization.target": 0}, "utilization.target"),
        ({"utilization.target": 1.1}, "utilization.target"),
        ({"utilization.target": "nan"}, "utilization.target"),
        ({"utilization.max": 0.6}, "utilization.max"),
        ({"utilization.max": 1.5}, "utilization.max"),
        ({"utilization.min": 0.8}, "utilization.min"),
        ({"utilization.min": -0.1}, "utilization.min"),
        ({"scale-down.max-factor": 1.2}, "scale-down.max-factor"),
        ({"scale-down.max-factor": -1}, "scale-down.max-factor"),
        ({"scale-up.max-factor": -1}, "scale-up.max-factor"),
        ({"scale-up.max-factor": "nan"}, "scale-up.max-factor"),
        ({"scaling.effectiveness.threshold": "nan"}, "scaling.effectiveness.threshold"),
        ({"stabilization.interval": "-1 s"}, "stabilization.interval"),
        ({"metrics.window": 0}, "metrics.window"),
        ({"scaling.effectiveness.threshold": -1}, "scaling.effectiveness.threshold"),
    ],
)
def test_options_that_cannot_work_are_refused_by_name(given, option):
    with pytest.raises(ConfigurationError, match=f"option 'job.autoscaler.{option}' cannot be"):
        read(**given)


def test_contradictions_are_refused_when_they_are_configured():
    env = StreamExecutionEnvironment.get_execution_environment(
        Configuration.from_dict({"job.autoscaler.vertex.max-parallelism": 4})
    )
    with pytest.raises(ConfigurationError, match="min-parallelism") as caught:
        env.configure(Configuration.from_dict({"job.autoscaler.vertex.min-parallelism": 5}))
    assert "at most 4" in caught.value.hint


@pytest.mark.parametrize(
    ("key", "value", "refused"),
    [
        ("job.autoscaler.restart.time", "1 min", None),
        ("job.autoscaler.memory.tuning.enabled", "true", None),
        ("job.autoscaler.quota.cpu", "1", "not supported"),
        ("job.autoscaler.vertex.exclude.ids", "1", "not supported"),
        ("job.autoscaler.excluded.periods", "1", "not supported"),
        ("job.autoscaler.enable", "true", "unknown"),
    ],
)
def test_limits_that_the_autoscaler_does_not_keep_are_refused(key, value, refused):
    if refused is None:
        validate(Configuration.from_dict({key: value}))
    else:
        with pytest.raises(ConfigurationError, match=refused):
            validate(Configuration.from_dict({key: value}))
