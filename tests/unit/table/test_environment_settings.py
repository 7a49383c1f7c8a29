"""EnvironmentSettings: what is said last about the mode counts."""

from __future__ import annotations

from penstock.common import Configuration
from penstock.table import EnvironmentSettings


def test_options_without_a_mode_leave_the_mode_as_it_is() -> None:
    options = Configuration.from_dict({"parallelism.default": "1"})
    builder = EnvironmentSettings.new_instance().in_batch_mode().with_configuration(options)
    assert not builder.build().is_streaming_mode()


def test_options_with_a_mode_set_it() -> None:
    batch = Configuration.from_dict({"execution.runtime-mode": "BATCH"})
    builder = EnvironmentSettings.new_instance().in_streaming_mode().with_configuration(batch)
    assert not builder.build().is_streaming_mode()
    assert builder.in_streaming_mode().build().is_streaming_mode()
