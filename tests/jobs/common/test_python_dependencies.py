"""Files that tasks import, and the log levels that they have."""

from __future__ import annotations

import logging
import sys
import zipfile

import pytest

from penstock.common import Configuration
from penstock.datastream import StreamExecutionEnvironment
from penstock.testing import MiniCluster


def doubled(value):
    import doubling_for_tasks

    return doubling_for_tasks.double(value)


@pytest.mark.parametrize("form", ["file", "folder", "archive", "uri"])
def test_tasks_without_spark_import_what_was_added(module, form):
    path = {"file": module, "folder": module.parent, "uri": module.as_uri()}.get(form)
    if path is None:
        path = module.parents[1] / "packed.zip"
        with zipfile.ZipFile(path, "w") as archive:
            archive.write(module, module.name)
    env = StreamExecutionEnvironment.get_execution_environment()
    env.add_python_file(path if form == "uri" else str(path))
    before = list(sys.path)
    with MiniCluster():
        assert list(env.from_collection([1, 2]).map(doubled).execute_and_collect()) == [2, 4]
    assert sys.path == before


LOGGER = "tests.levels_of_tasks"


def level_of_a_logger(_):
    return logging.getLogger(LOGGER).level


def test_tasks_have_the_log_levels_of_the_job():
    configuration = Configuration.from_dict(
        {"python.logging.level.overrides": f"{LOGGER}:CRITICAL"}
    )
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    with MiniCluster():
        found = list(env.from_collection([1]).map(level_of_a_logger).execute_and_collect())
    assert found == [logging.CRITICAL]
