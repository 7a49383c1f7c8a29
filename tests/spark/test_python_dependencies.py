"""Tasks have what their job asks for: files, packages, archives, interpreter; and nothing of what another job does."""

from __future__ import annotations

import sys
import venv
import zipfile

import pytest

from penstock.common import Configuration
from penstock.datastream import StreamExecutionEnvironment
from penstock.errors import JobExecutionError
from tests.builders.wheels import requirements_of, write_wheel


@pytest.fixture
def make(tmp_path):
    """Environments of programs, with a cache of their own."""

    def make(**options):
        settings = {"penstock.python.environments-dir": str(tmp_path / "cache")}
        settings |= {key.replace("__", "."): value for key, value in options.items()}
        env = StreamExecutionEnvironment.get_execution_environment(
            Configuration.from_dict(settings)
        )
        return env.set_parallelism(2)

    return make


def results(env, function, items=(1, 2)):
    """What a function makes of items, in tasks."""
    with env.from_collection(list(items)).rebalance().map(function).execute_and_collect() as found:
        return sorted(found)


def version_of_greeting(_):
    import greeting

    return greeting.VERSION


def test_two_jobs_of_one_process_have_two_versions_of_a_package(make, tmp_path):
    for version, mode in (("1.0", "epochs"), ("2.0", "pipelined")):
        packages = tmp_path / f"packages-{version}"
        write_wheel(packages, "greeting", version, f"VERSION = {version!r}\n")
        env = make(penstock__execution__mode=mode)
        requirements = requirements_of(tmp_path / version, f"greeting=={version}")
        env.set_python_requirements(str(requirements), str(packages))
        assert results(env, version_of_greeting) == [version, version]
    with pytest.raises(JobExecutionError, match="No module named 'greeting'"):
        results(make(), version_of_greeting)  # which the program itself does not have


def test_another_cloudpickle_among_the_requirements_is_the_functions_own(make, tmp_path):
    """Tasks load with the driver's version, whatever their functions import."""
    source = "__version__ = '1.6.0'\n"  # which lacks what the driver's pickles name
    write_wheel(tmp_path / "packages", "cloudpickle", "1.6.0", source)
    requirements = requirements_of(tmp_path, "cloudpickle==1.6.0")

    class Seen(str):  # travels by value between tasks, pickled in one of them
        pass

    def see(number):
        import cloudpickle

        return Seen(f"{number} {cloudpickle.__version__}")

    for mode in ("epochs", "pipelined"):
        env = make(penstock__execution__mode=mode)
        env.set_python_requirements(str(requirements), str(tmp_path / "packages"))
        seen = env.from_collection([1, 2]).rebalance().map(see).rebalance().map(str)
        with seen.execute_and_collect() as found:
            assert sorted(found) == ["1 1.6.0", "2 1.6.0"]


def test_a_requirement_that_is_nowhere_fails_the_job_with_what_pip_says(make, tmp_path):
    (tmp_path / "packages").mkdir()
    env = make()
    requirements = requirements_of(tmp_path, "no-such-package-anywhere==3")
    env.set_python_requirements(str(requirements), str(tmp_path / "packages"))
    with pytest.raises(JobExecutionError) as caught:
        results(env, version_of_greeting)
    assert "could not obtain the Python requirements of the job" in str(caught.value)
    assert "no-such-package-anywhere" in str(caught.value)


def test_modules_of_the_same_name_belong_to_their_jobs(make, tmp_path):
    def answer(_):
        import answers_for_tasks

        return answers_for_tasks.ANSWER

    for name, value in (("a", 1), ("b", 2), ("a", 1)):
        module = tmp_path / name / "answers_for_tasks.py"
        module.parent.mkdir(exist_ok=True)
        module.write_text(f"ANSWER = {value}\n")
        env = make()
        env.add_python_file(str(module))
        assert results(env, answer) == [value, value]


def test_archives_are_unpacked_into_the_working_directory_of_tasks(make, tmp_path):
    archive = tmp_path / "words.zip"
    with zipfile.ZipFile(archive, "w") as packed:
        packed.writestr("list/words.txt", "river")
    env = make()
    env.add_python_archive(str(archive))
    env.add_python_archive(str(archive), "named")

    def read(place):
        with open(f"{place}/list/words.txt") as file:
            return file.read()

    assert results(env, read, ["words.zip", "named"]) == ["river", "river"]


def test_tasks_run_with_another_interpreter_and_its_packages(make, tmp_path):
    folder = tmp_path / "other"
    venv.create(folder, with_pip=False, symlinks=True)
    (site,) = folder.glob("lib/python*/site-packages")
    (site / "greeting.py").write_text("VERSION = 'of the interpreter'\n")
    env = make()
    env.set_python_executable(str(folder / "bin" / "python"))
    assert results(env, version_of_greeting) == ["of the interpreter"] * 2

    def executable(_):
        return sys.executable

    env.set_python_executable(str(folder / "bin" / "python"))
    assert results(env, executable) == [str(folder / "bin" / "python")] * 2
