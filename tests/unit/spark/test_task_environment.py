"""The environment of a job's workers: made once for all tasks; made again if a process died over it; kept while it is used."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tarfile
import time
import types
import zipfile
from pathlib import Path

import psutil
import pytest

import penstock
from penstock.dependencies.python_dependencies import PythonDependencies
from penstock.errors import JobCancelledError
from penstock.pickling import cloudpickling
from penstock.spark import task_environment
from penstock.spark.dependencies import DependenciesError, WorkerEnvironment, pack
from penstock.spark.task_environment import PreparationError, prepare
from tests.builders.wheels import requirements_of, write_wheel

TIMEOUT_S = 60.0
NIGHT = f"31415.{os.getpid()}"  # seconds that nothing else sleeps


@pytest.fixture
def bundle(tmp_path):
    def bundle(**wanted):
        return pack(PythonDependencies(**wanted), str(tmp_path / "cache"))

    return bundle


@pytest.fixture
def greeting(tmp_path):
    """A requirements file and the folder that it is installed from."""
    write_wheel(tmp_path / "packages", "greeting", "1.0", "VERSION = '1.0'\n")
    requirements = requirements_of(tmp_path, "greeting==1.0")
    return {"requirements": str(requirements), "packages": str(tmp_path / "packages")}


def start(bundle, *arguments):
    """Start what Spark starts for a worker."""
    return subprocess.Popen(
        [bundle.with_name(f"{bundle.stem}-python"), *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        stdin=subprocess.PIPE,
        text=True,
    )


def ask(bundle, question):
    out, errors = start(
        bundle, "-c", f"import json, os, sys; print(json.dumps({question}))"
    ).communicate()
    assert not errors
    return json.loads(out)


def test_what_is_the_same_has_the_same_name_and_what_is_not_has_another(bundle, tmp_path):
    module = tmp_path / "module.py"
    module.write_text("A = 1")
    first, second = bundle(files=(str(module),)), bundle(files=(str(module),))
    assert first.name == second.name
    module.write_text("A = 2")
    assert bundle(files=(str(module),)).name != first.name


def test_pickles_of_the_driver_load_beside_another_cloudpickle(bundle, tmp_path):
    write_wheel(tmp_path / "packages", "cloudpickle", "1.6.0", "__version__ = '1.6.0'\n")
    requirements = requirements_of(tmp_path, "cloudpickle==1.6.0")
    made = bundle(requirements=str(requirements), packages=str(tmp_path / "packages"))
    factor = 6
    pickled = cloudpickling.dumps(lambda number: factor * number)
    root = Path(penstock.__file__).parents[1]
    question = (
        f"sys.path.append({str(root)!r}) or"
        f" [__import__('pickle').loads({pickled!r})(7), __import__('cloudpickle').__version__]"
    )
    assert ask(made, question) == [42, "1.6.0"]


def test_requirements_with_another_pyspark_are_refused(bundle, tmp_path):
    write_wheel(tmp_path / "packages", "pyspark", "3.0.1", "")
    requirements = requirements_of(tmp_path, "pyspark==3.0.1")
    made = bundle(requirements=str(requirements), packages=str(tmp_path / "packages"))
    with pytest.raises(PreparationError, match=r"install pyspark 3\.0\.1, but the driver has"):
        prepare(made)


def test_modules_come_before_what_the_interpreter_has(bundle, tmp_path):
    module = tmp_path / "colorsys.py"  # as one of the standard library is called
    module.write_text("A = 1")
    archive = tmp_path / "more.zip"
    with zipfile.ZipFile(archive, "w") as packed:
        packed.writestr("more_of_them/__init__.py", "B = 2")
    packed = bundle(files=(str(module), str(archive)))
    assert ask(packed, "[__import__('colorsys').A, __import__('more_of_them').B]") == [1, 2]


def test_permissions_and_links_of_an_archive_stay(bundle, tmp_path):
    folder = tmp_path / "tools"
    (folder / "bin").mkdir(parents=True)
    program = folder / "bin" / "hello"
    program.write_text("#!/bin/sh\necho hello\n")
    program.chmod(0o755)
    (folder / "bin" / "again").symlink_to("hello")
    zipped, tarred = tmp_path / "tools.zip", tmp_path / "tools.tar.gz"
    subprocess.run([sys.executable, "-c", ZIP_WITH_LINKS, str(zipped)], cwd=tmp_path, check=True)
    with tarfile.open(tarred, "w:gz") as packed:
        packed.add(folder, "tools")
    at = bundle(archives=((str(zipped), "z"), (str(tarred), "t")))
    question = "[__import__('subprocess').check_output([f'./{x}/tools/bin/again'], text=True) for x in 'zt']"
    assert ask(at, question) == ["hello\n", "hello\n"]


ZIP_WITH_LINKS = """
import os, stat, sys, zipfile
with zipfile.ZipFile(sys.argv[1], "w") as packed:
    packed.write("tools/bin/hello")
    link = zipfile.ZipInfo("tools/bin/again")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    packed.writestr(link, os.readlink("tools/bin/again"))
"""


def test_packages_are_installed_once_by_the_first_of_many(bundle, greeting, tmp_path):
    packed = bundle(**greeting)
    question = "print(__import__('greeting').VERSION, sys.executable)"
    running = [start(packed, "-c", f"import sys; {question}") for _ in range(3)]
    answers = {process.communicate()[0] for process in running}
    (answer,) = answers
    version, interpreter = answer.split()
    assert version == "1.0"
    (made,) = (tmp_path / "cache").glob("packages-*/bin/python")
    assert interpreter == str(made)
    before = made.lstat().st_ctime_ns
    assert ask(packed, "__import__('greeting').VERSION") == "1.0"
    assert made.lstat().st_ctime_ns == before


def test_what_a_killed_process_left_half_done_is_made_again(bundle, greeting, tmp_path):
    packed = bundle(**greeting)
    first = start(packed, "-c", "pass")
    deadline = time.monotonic() + TIMEOUT_S
    while not list((tmp_path / "cache").glob("packages-*/bin")):
        assert time.monotonic() < deadline
        assert first.poll() is None
    first.send_signal(signal.SIGKILL)
    first.wait()
    assert not list((tmp_path / "cache").glob("packages-*/.complete"))
    assert ask(packed, "__import__('greeting').VERSION") == "1.0"


def test_a_job_that_is_cancelled_does_not_wait_for_its_packages(tmp_path):
    slow = tmp_path / "python"
    slow.write_text(f"#!/bin/sh\nexec sleep {NIGHT}\n")
    slow.chmod(0o755)
    environment = WorkerEnvironment(
        PythonDependencies(executable=str(slow)), str(tmp_path / "cache")
    )
    context = types.SimpleNamespace(master="local[2]", applicationId="a")

    def installing():
        return any(
            process.info["cmdline"] == ["sleep", NIGHT]
            for process in psutil.process_iter(["cmdline"])
        )

    with pytest.raises(JobCancelledError):
        environment.prepare(context, 1, installing)
    # The signal was sent to all processes of the group; the kernel ends them one by one.
    deadline = time.monotonic() + TIMEOUT_S
    while installing():
        assert time.monotonic() < deadline


def test_an_environment_is_made_before_workers_start_and_failures_are_reported_as_such(tmp_path):
    context = types.SimpleNamespace(master="local[2]", applicationId="a")
    module = tmp_path / "module.py"
    module.touch()
    cache = tmp_path / "cache"
    WorkerEnvironment(PythonDependencies(files=(str(module),)), str(cache)).prepare(context, 1)
    assert len(list(cache.glob("files-*/.complete"))) == 1
    broken = tmp_path / "broken.zip"
    broken.write_text("no archive")
    environment = WorkerEnvironment(PythonDependencies(archives=((str(broken), "b"),)), str(cache))
    with pytest.raises(DependenciesError, match=r"cannot unpack the archive 'broken\.zip'"):
        environment.prepare(context, 1)


def test_folders_of_the_machine_are_imported_from(bundle, tmp_path):
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "installed_there.py").write_text("C = 3")
    packed = bundle(import_path=(str(tmp_path / "there"),))
    assert ask(packed, "__import__('installed_there').C") == 3


def test_what_is_used_is_kept_and_what_was_not_used_for_long_goes(bundle, tmp_path):
    def made(name):
        module = tmp_path / f"{name}.py"
        module.write_text("")
        return bundle(files=(str(module),))

    used, unused = made("used"), made("unused")
    worker = start(used, "-c", "input()")
    prepare(unused).release()
    cache = tmp_path / "cache"
    deadline = time.monotonic() + TIMEOUT_S
    while len(list(cache.glob("files-*/.complete"))) < 2:
        assert time.monotonic() < deadline
    while os.readlink(f"/proc/{worker.pid}/exe") != os.path.realpath(sys.executable) or Path(
        f"/proc/{worker.pid}/cmdline"
    ).read_bytes().split(b"\0")[2:3] != [b"input()"]:
        assert time.monotonic() < deadline  # it has become what it was started for, with its lock
    for lock in cache.glob("*.lock"):
        os.utime(lock, (0, 0))
    prepare(made("new")).release()
    names = {path.name for path in cache.glob("files-*") if path.is_dir()}
    digests = {
        name: path.stem.removeprefix("penstock-")
        for name, path in (("used", used), ("unused", unused))
    }
    assert f"files-{digests['used']}" in names
    assert f"files-{digests['unused']}" not in names
    worker.communicate("")


def test_a_failed_installation_is_reported_and_leaves_nothing(bundle, tmp_path):
    broken = tmp_path / "broken.zip"
    broken.write_text("no archive")
    with pytest.raises(PreparationError, match=r"cannot unpack the archive 'broken\.zip'"):
        prepare(bundle(archives=((str(broken), "b"),)))
    with pytest.raises(PreparationError, match="interpreter 'no-such-python' not found"):
        prepare(bundle(executable="no-such-python"))
    (tmp_path / "none").mkdir()
    requirements = requirements_of(tmp_path, "no-such-package-anywhere")
    wanted = bundle(requirements=str(requirements), packages=str(tmp_path / "none"))
    with pytest.raises(
        PreparationError, match="could not obtain the Python requirements of the job"
    ) as caught:
        prepare(wanted)
    assert "no-such-package-anywhere" in caught.value.detail
    assert not list((tmp_path / "cache").glob("packages-*/.complete"))
    process = start(wanted, "-c", "pass")
    assert "no-such-package-anywhere" in process.communicate()[1]
    assert process.returncode == 1


def test_an_interpreter_of_another_version_is_refused(bundle, tmp_path):
    fake = tmp_path / "python"
    fake.write_text("#!/bin/sh\necho 2.7\n")
    fake.chmod(0o755)
    with pytest.raises(PreparationError, match=r"is Python 2\.7, but the program runs with 3\."):
        prepare(bundle(executable=str(fake)))


def test_a_folder_of_another_user_is_not_used(bundle, tmp_path, monkeypatch):
    monkeypatch.setattr(task_environment.os, "geteuid", lambda: 123456)
    with pytest.raises(PreparationError, match="no directory"):
        prepare(bundle(executable="python"))
