"""What programs ask for on behalf of their tasks: files, packages, archives, an interpreter."""

from __future__ import annotations

import importlib
import logging
import sys

import pytest

from penstock.common import Configuration
from penstock.datastream import StreamExecutionEnvironment
from penstock.dependencies.python_dependencies import (
    PythonDependencies,
    add_to_import_path,
    add_to_this_process,
    check_python_file,
    dependencies_of,
    is_this_interpreter,
    set_log_levels,
    split_python_files,
)
from penstock.errors import ArgumentError, ConfigurationError, UnsupportedOperationError
from penstock.options.option_checks import validate


def test_a_file_that_is_not_there_is_refused_when_it_is_added(tmp_path):
    env = StreamExecutionEnvironment.get_execution_environment()
    with pytest.raises(ArgumentError, match=r"'.*gone\.py' does not exist"):
        env.add_python_file(str(tmp_path / "gone.py"))
    with pytest.raises(ArgumentError, match="does not exist"):
        env.configure(Configuration.from_dict({"python.files": str(tmp_path / "gone.py")}))
    with pytest.raises(ArgumentError, match="once for each file"):
        env.add_python_file(f"{__file__},{__file__}")


def test_files_of_other_file_systems_are_looked_for_when_the_job_starts():
    assert check_python_file("hdfs://host/a.py") == "hdfs://host/a.py"
    with pytest.raises(UnsupportedOperationError, match="without Spark"):
        add_to_import_path(["hdfs://host/a.py"])


def test_files_are_separated_by_commas():
    assert split_python_files(" a.py, b.zip,,") == ("a.py", "b.zip")


def environment():
    return StreamExecutionEnvironment.get_execution_environment()


def asked_for(env):
    return dependencies_of(env.get_configuration().to_dict())


def test_what_a_program_asks_for_is_kept_in_the_options_of_pyflink(tmp_path):
    requirements, archive, packages = (
        tmp_path / "req.txt",
        tmp_path / "data.zip",
        tmp_path / "wheels",
    )
    requirements.touch()
    archive.touch()
    packages.mkdir()
    env = environment()
    env.set_python_requirements(str(requirements), str(packages))
    env.add_python_archive(str(archive))
    env.add_python_archive(str(archive), "named")
    env.set_python_executable("data.zip/bin/python")
    options = env.get_configuration().to_dict()
    assert options["python.requirements"] == f"{requirements}#{packages}"
    assert options["python.archives"] == f"{archive},{archive}#named"
    assert asked_for(env) == PythonDependencies(
        requirements=str(requirements),
        packages=str(packages),
        archives=((str(archive), "data.zip"), (str(archive), "named")),
        executable="data.zip/bin/python",
    )


WRONG = {
    "requirements that are not there": lambda env, at: env.set_python_requirements(
        f"{at}/gone.txt"
    ),
    "a folder of packages that is a file": lambda env, at: env.set_python_requirements(
        f"{at}/a.zip", f"{at}/a.zip"
    ),
    "an archive that is not there": lambda env, at: env.add_python_archive(f"{at}/gone.zip"),
    "an archive that is none": lambda env, at: env.add_python_archive(f"{at}/a.txt"),
    "a folder elsewhere": lambda env, at: env.add_python_archive(f"{at}/a.zip", "../up"),
    "the root": lambda env, at: env.add_python_archive(f"{at}/a.zip", "/etc"),
    "two paths in one": lambda env, at: env.add_python_archive(f"{at}/a.zip,{at}/a.zip"),
    "the option of archives": lambda env, at: env.configure(
        Configuration.from_dict({"python.archives": f"{at}/gone.zip"})
    ),
    "the option of requirements": lambda env, at: env.configure(
        Configuration.from_dict({"python.requirements": f"{at}/gone.txt"})
    ),
}


@pytest.mark.parametrize("ask", WRONG.values(), ids=WRONG)
def test_missing_dependencies_are_rejected_when_they_are_added(ask, tmp_path):
    (tmp_path / "a.zip").touch()
    (tmp_path / "a.txt").touch()
    env = environment()
    with pytest.raises(ArgumentError) as caught:
        ask(env, tmp_path)
    assert caught.value.message
    assert asked_for(env).is_empty()


def test_the_interpreter_of_the_program_is_nothing_to_ask_for(tmp_path):
    env = environment()
    env.set_python_executable(sys.executable)
    assert env.get_configuration().get_string("python.executable", "") == sys.executable
    assert asked_for(env).is_empty()
    link = tmp_path / "python"
    link.symlink_to(sys.executable)
    assert not is_this_interpreter(str(link))  # what an interpreter of another environment is


@pytest.mark.parametrize(
    "dependencies",
    [
        PythonDependencies(requirements="r.txt"),
        PythonDependencies(archives=(("a.zip", "a"),)),
        PythonDependencies(executable="python2"),
    ],
    ids=["requirements", "archives", "executable"],
)
def test_threads_of_the_program_cannot_have_what_needs_processes(dependencies):
    with pytest.raises(UnsupportedOperationError, match="needs Spark"):
        add_to_this_process(dependencies)


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
