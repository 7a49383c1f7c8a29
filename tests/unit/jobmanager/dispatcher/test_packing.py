"""Programs as bytes: what goes along, what stays, and what is refused."""

from __future__ import annotations

import pickle
import subprocess
import sys

import pytest

from penstock.datastream import StreamExecutionEnvironment
from penstock.errors import ArgumentError, InvalidProgramError
from penstock.graph.settings import GraphSettings
from penstock.jobmanager.dispatcher.attachments import attach_files
from penstock.jobmanager.dispatcher.packing import (
    FORMAT,
    pack_program,
    unpack_program,
    user_modules,
)
from penstock.options.configuration import Configuration


def transformations(define):
    environment = StreamExecutionEnvironment.get_execution_environment()
    define(environment)
    return environment._transformations


def test_a_long_pipeline_is_not_too_deep():
    def define(environment):
        stream = environment.from_collection([1])
        for _ in range(1500):
            stream = stream.map(lambda value: value)

    packed = pack_program(transformations(define), GraphSettings(parallelism=3))
    program = unpack_program(packed)

    assert program.settings.parallelism == 3
    steps, step = 0, program.transformations[-1]
    while step.inputs:
        steps, step = steps + 1, step.inputs[0]
    assert steps >= 1500


def test_steps_with_a_common_input_share_it_still():
    def define(environment):
        source = environment.from_collection([1])
        source.map(lambda value: value).union(source.map(lambda value: -value)).print()

    program = unpack_program(pack_program(transformations(define), GraphSettings()))

    first, second = program.transformations[-1].inputs[0].inputs
    assert first.inputs[0] is second.inputs[0]


def test_another_process_needs_none_of_the_users_modules(tmp_path, monkeypatch):
    (tmp_path / "users_module.py").write_text(
        "FACTOR = 7\n\ndef times(n):\n    return n * FACTOR\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    import users_module

    packed = pack_program(
        transformations(lambda env: env.from_collection([1]).map(users_module.times)),
        GraphSettings(),
    )
    file = tmp_path / "packed"
    file.write_bytes(packed)
    found = subprocess.run(
        [sys.executable, "-c", f'''
import sys, pathlib
from penstock.jobmanager.dispatcher.packing import unpack_program
program = unpack_program(pathlib.Path({str(file)!r}).read_bytes())
print(program.transformations[-1].spec.function.map(6) if hasattr(program.transformations[-1].spec.function, "map")
      else program.transformations[-1].spec.function(6))
assert "users_module" not in sys.modules
'''],
        capture_output=True, text=True, check=False, cwd="/",
    )  # fmt: skip
    assert (found.stdout, found.stderr) == ("42\n", "")


def test_modules_of_python_and_of_packages_are_not_the_users():
    names = {module.__name__ for module in user_modules()}

    assert __name__ in names
    assert not names & {"json", "pytest", "penstock", "penstock.datastream", "cloudpickle"}


@pytest.mark.parametrize(
    ("data", "reported"),
    [
        (b"nonsense", "cannot read the submitted program"),
        (pickle.dumps(((FORMAT, (2, 7)), b"")), "submitted by another version"),
        (pickle.dumps(((FORMAT + 1, sys.version_info[:2]), b"")), "submitted by another version"),
        (
            pickle.dumps(((FORMAT, sys.version_info[:2]), b"cno_such_module\nthing\n.")),
            "needs a package",
        ),
        (
            pickle.dumps(((FORMAT, sys.version_info[:2]), b"\x80")),
            "cannot unpickle the submitted program",
        ),
    ],
    ids=["no program", "another Python", "another format", "a missing package", "damaged"],
)
def test_what_cannot_be_unpacked_is_refused_with_the_reason(data, reported):
    with pytest.raises(InvalidProgramError, match=reported):
        unpack_program(data)


def test_files_of_options_go_along_and_their_paths_become_names(tmp_path):
    (tmp_path / "folder" / "deep").mkdir(parents=True)
    (tmp_path / "folder" / "deep" / "module.py").write_text("x = 1")
    (tmp_path / "one.py").write_text("y = 2")
    (tmp_path / "requirements.txt").write_text("numpy")
    configuration = Configuration.from_dict(
        {
            "python.files": f"{tmp_path}/one.py,{tmp_path}/folder,hdfs://host/far.zip",
            "python.archives": f"{tmp_path}/one.py#data",
            "python.requirements": f"{tmp_path}/requirements.txt#{tmp_path}/folder",
            "parallelism.default": "2",
        }
    )

    values, files = attach_files(configuration)

    one, folder, far = values["python.files"].split(",")
    assert files[one.removeprefix("penstock-file:")] == b"y = 2"
    assert files[f"{folder.removeprefix('penstock-file:')}/deep/module.py"] == b"x = 1"
    assert far == "hdfs://host/far.zip"
    assert values["python.archives"].endswith("#data")
    requirements, _, packages = values["python.requirements"].partition("#")
    assert files[requirements.removeprefix("penstock-file:")] == b"numpy"
    assert f"{packages.removeprefix('penstock-file:')}/deep/module.py" in files
    assert values["parallelism.default"] == "2"


def test_relative_directories_mean_the_same_place_elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    configuration = Configuration.from_dict({"execution.checkpointing.dir": "checkpoints"})

    assert attach_files(configuration)[0] == {
        "execution.checkpointing.dir": f"{tmp_path}/checkpoints"
    }


def test_a_missing_file_is_reported(tmp_path):
    with pytest.raises(ArgumentError, match="cannot read"):
        attach_files(Configuration.from_dict({"python.files": f"{tmp_path}/missing.py"}))
