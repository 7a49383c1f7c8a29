"""Files that tasks import, and what PyFlink does for tasks that Penstock refuses."""

from __future__ import annotations

import importlib
import logging
import sys
import zipfile
from pathlib import Path

import pytest

from penstock.common import Configuration
from penstock.common.option_checks import validate
from penstock.common.python_dependencies import (
    add_to_import_path,
    as_shippable,
    check_python_file,
    is_this_interpreter,
    set_log_levels,
    split_python_files,
)
from penstock.datastream import StreamExecutionEnvironment
from penstock.errors import ArgumentError, ConfigurationError, UnsupportedOperationError


def test_a_file_that_is_not_there_is_refused_when_it_is_added(tmp_path):
    env = StreamExecutionEnvironment.get_execution_environment()
    with pytest.raises(ArgumentError, match=r"'.*gone\.py' does not exist"):
        env.add_python_file(str(tmp_path / "gone.py"))
    with pytest.raises(ArgumentError, match="does not exist"):
        env.configure(Configuration.from_dict({"python.files": str(tmp_path / "gone.py")}))
    with pytest.raises(ArgumentError, match="once for each file"):
        env.add_python_file(f"{__file__},{__file__}")


def test_files_of_other_file_systems_are_left_to_spark():
    assert check_python_file("hdfs://host/a.py") == "hdfs://host/a.py"
    with pytest.raises(UnsupportedOperationError, match="without Spark"):
        add_to_import_path(["hdfs://host/a.py"])


def test_spark_gets_an_archive_of_a_folder(module):
    shipped = as_shippable(str(module.parent))
    assert Path(shipped).name == "modules.zip"
    assert zipfile.ZipFile(shipped).namelist() == [module.name]
    assert as_shippable(str(module)) == str(module)


def test_files_are_separated_by_commas():
    assert split_python_files(" a.py, b.zip,,") == ("a.py", "b.zip")


REFUSED = {
    "archives": lambda env: env.add_python_archive("venv.zip"),
    "archives with a target": lambda env: env.add_python_archive("venv.zip", "venv"),
    "requirements": lambda env: env.set_python_requirements("requirements.txt"),
    "requirements with a cache": lambda env: env.set_python_requirements("req.txt", "cache"),
    "executable": lambda env: env.set_python_executable("/opt/other/bin/python"),
    "option of archives": lambda env: env.configure(
        Configuration.from_dict({"python.archives": "venv.zip"})
    ),
    "option of requirements": lambda env: env.configure(
        Configuration.from_dict({"python.requirements": "req.txt"})
    ),
    "option of the executable": lambda env: env.configure(
        Configuration.from_dict({"python.executable": "venv.zip/venv/bin/python"})
    ),
    "option of the path": lambda env: env.configure(
        Configuration.from_dict({"python.pythonpath": "/opt/modules"})
    ),
}


@pytest.mark.parametrize("ask", REFUSED.values(), ids=REFUSED)
def test_what_tasks_would_not_get_is_refused(ask):
    env = StreamExecutionEnvironment.get_execution_environment()
    with pytest.raises(UnsupportedOperationError) as caught:
        ask(env)
    assert caught.value.detail
    assert caught.value.hint
    assert not any(key.startswith("python.") for key in env.get_configuration().key_set())


def test_the_interpreter_of_the_program_may_be_named(tmp_path):
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_python_executable(sys.executable)
    assert env.get_configuration().get_string("python.executable", "") == sys.executable
    link = tmp_path / "python"
    link.symlink_to(sys.executable)
    assert not is_this_interpreter(str(link))  # what an interpreter of another environment is


LOGGER = "tests.levels_of_tasks"


def test_log_levels_are_those_of_the_options(monkeypatch):
    root = logging.getLogger()
    monkeypatch.setattr(root, "level", root.level)
    set_log_levels("ERROR", {LOGGER: "debug"})
    assert root.level == logging.ERROR
    assert logging.getLogger(LOGGER).level == logging.DEBUG
    set_log_levels(None, {})
    assert root.level == logging.ERROR


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("python.logging.default.level", "LOUD"),
        ("python.logging.level.overrides", "a:DEBUG,b:LOUD"),
    ],
)
def test_a_level_that_is_none_is_refused(key, value):
    with pytest.raises(ConfigurationError, match="LOUD"):
        validate(Configuration.from_dict({key: value}))


def test_options_of_pyflink_are_known():
    validate(
        Configuration.from_dict(
            {
                "python.logging.default.level": "debug",
                "python.logging.level.overrides": "my.module:WARN",
                "python.job-options": "a:1",
            }
        )
    )


def test_a_module_is_importable_only_after_it_was_added(module):
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("doubling_for_tasks")
    assert add_to_import_path([str(module)]) == [str(module.parent.resolve())]
    assert importlib.import_module("doubling_for_tasks").double(3) == 6
