"""The package as users get it: built, installed into an empty environment, and used outside of the repository."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tarfile
import tempfile
import zipfile
from pathlib import Path
from urllib.request import urlopen

import pytest

import penstock
from penstock.cli.init import TEMPLATES
from penstock.dependencies.distribution import install_command
from tests.builders.installation import ROOT, WORK, build, install, uv
from tests.builders.waiting import wait_until

pytestmark = pytest.mark.skipif(uv() is None, reason="uv is not available for this platform")

ENDLESS = """
from penstock.common import WatermarkStrategy
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.connectors import DataGeneratorSource, RateLimiterStrategy

env = StreamExecutionEnvironment.get_execution_environment()
source = DataGeneratorSource(int, rate_limiter_strategy=RateLimiterStrategy.per_second(10))
numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers")
numbers.map(lambda n: n * n).print()
env.execute("squares")
"""

AVRO = """
from penstock.datastream.formats.avro import AvroSchema
from penstock.formats.avro.schema import fastavro

print(AvroSchema.parse_string('{"type": "array", "items": "long"}'), fastavro().__name__)
"""

KAFKA = """
from penstock.datastream.connectors.kafka import KafkaSource
from penstock.common import SimpleStringSchema

KafkaSource.builder().set_bootstrap_servers("localhost:9").set_topics("t").set_value_only_deserializer(
    SimpleStringSchema()
).build()
"""

# What a type checker must find in a user's program, by line.
MISTAKES = {
    'env.set_parallelism("two")': "arg-type",
    "env.from_collection([1]).mapp(str)": "attr-defined",
    "env.from_collection([1]).key_by()": "call-arg",
    "length: str = env.get_parallelism()": "assignment",
    'TableEnvironment.create("streaming")': "arg-type",
}


@pytest.fixture(scope="module")
def place():
    WORK.mkdir(exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="installed-", dir=WORK))
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def built(place):
    return build(place / "dist")


@pytest.fixture(scope="module")
def installed(built, place, tmp_path_factory):
    home = tmp_path_factory.mktemp("elsewhere")
    return install(f"{built.wheel}[avro]", place / "env", home)


@pytest.mark.ci
def test_the_package_is_imported_from_the_environment(installed, place):
    code = "import penstock, sys; print(penstock.__file__, *sys.path)"
    found = installed.run("python", "-c", code).stdout
    assert found.startswith(str(place / "env"))
    assert f"{ROOT}/penstock" not in found
    assert installed.run("penstock", "version").stdout == f"penstock {penstock.__version__}\n"


@pytest.mark.ci
def test_the_wheel_has_the_package_and_nothing_else(built):
    with zipfile.ZipFile(built.wheel) as wheel:
        names = set(wheel.namelist())
    assert {name.partition("/")[0] for name in names if ".dist-info" not in name} == {"penstock"}
    listed = subprocess.run(
        ["git", "ls-files", "penstock"], cwd=ROOT, check=True, capture_output=True, text=True
    )
    assert set(listed.stdout.split()) - names == set()
    assert "penstock/py.typed" in names


@pytest.mark.ci
def test_the_sdist_has_what_building_and_testing_need(built):
    with tarfile.open(built.sdist) as sdist:
        names = {name.partition("/")[2] for name in sdist.getnames()}
    assert {"pyproject.toml", "LICENSE", "README.md", "CHANGELOG.md", "tests/conftest.py"} <= names
    assert not [name for name in names if name.startswith((".venv/", "node_modules/", "build/"))]


@pytest.mark.ci
def test_a_new_project_of_each_template_is_created_and_one_runs(installed):
    for template in TEMPLATES:
        installed.run("penstock", "init", f"my-{template}", "--template", template)
    job = installed.home / "my-pyflink" / "job.py"
    data = installed.home / "my-pyflink" / "data" / "lines.txt"
    printed = installed.run("penstock", "run", "--no-spark", str(job), "--input", str(data)).stdout
    assert "(to,3)" in printed


@pytest.mark.ci
def test_sql_is_executed(installed):
    query = "SELECT a, COUNT(*) AS n FROM (VALUES ('x'), ('y'), ('x')) AS t(a) GROUP BY a"
    setting = "SET 'execution.runtime-mode' = 'batch'"
    printed = installed.run("penstock", "sql", "--no-spark", "-e", f"{setting}; {query}").stdout
    assert re.search(r"x\W+2\b", printed), printed


@pytest.mark.ci
def test_an_extra_works_and_one_that_is_missing_is_named(installed):
    assert "fastavro" in installed.run("python", "-c", AVRO).stdout
    refused = installed.run("python", "-c", KAFKA, code=1).stderr
    assert install_command("kafka") in refused


@pytest.mark.ci
def test_a_running_job_has_its_page(installed):
    job = installed.home / "endless.py"
    job.write_text(ENDLESS)
    output = installed.home / "endless.txt"
    with (
        output.open("wb") as file,
        subprocess.Popen(
            [str(installed.python.parent / "penstock"), "run", "--no-spark", str(job)],
            cwd=installed.home,
            env=installed.environment(),
            stdout=file,
            stderr=subprocess.STDOUT,
        ) as process,
    ):
        try:

            def address():
                assert process.poll() is None, output.read_text()
                listed = json.loads(installed.run("penstock", "list", "--json").stdout)
                running = [each for each in listed if each["name"] == "squares"]
                return running and installed.run("penstock", "page", "squares").stdout.strip()

            page = wait_until(address, "the job is listed")
            root = page.partition("#")[0].partition("?")[0].rstrip("/")
            with urlopen(f"{root}/", timeout=60) as answer:
                html = answer.read().decode()
            scripts = re.findall(r'<script[^>]* src="([^"]+)"', html)
            assert scripts
            for script in scripts:
                with urlopen(f"{root}/{script.lstrip('./')}", timeout=60) as answer:
                    assert answer.status == 200
                    assert answer.read()
            installed.run("penstock", "cancel", "squares")
            process.wait()
        finally:
            process.kill()


@pytest.mark.ci
def test_a_type_checker_finds_the_mistakes_of_a_program(installed, place):
    programs = {}
    for template in ("datastream", "kafka", "cep"):
        programs[template] = installed.home / f"typed-{template}" / f"{template}_job.py"
        installed.run("penstock", "init", f"typed-{template}", "--template", template)
        (programs[template].parent / "job.py").rename(programs[template])
    wrong = installed.home / "wrong.py"
    setup = (
        "from penstock.datastream import StreamExecutionEnvironment",
        "from penstock.table import TableEnvironment",
        "env = StreamExecutionEnvironment.get_execution_environment()",
    )
    wrong.write_text("\n".join([*setup, *MISTAKES, ""]))
    done = subprocess.run(
        [
            *(os.path.join(ROOT, ".venv", "bin", "mypy"), "--strict", "--no-error-summary"),
            *("--python-executable", str(installed.python), "--cache-dir", str(place / "mypy")),
            *map(str, [*programs.values(), wrong]),
        ],
        cwd=installed.home,
        env=installed.environment(),
        check=False,
        capture_output=True,
        text=True,
    )
    found = re.findall(r"(\w+\.py):(\d+): error: .*\[([\w-]+)\]", done.stdout)
    expected = [
        ("wrong.py", str(line), code) for line, code in enumerate(MISTAKES.values(), len(setup) + 1)
    ]
    assert found == expected, done.stdout + done.stderr


def test_a_job_runs_on_spark(installed):
    installed.run("penstock", "init", "on-spark")
    project = installed.home / "on-spark"
    options = ("-m", "local[2]", "-p", "2")
    data = str(project / "data" / "readings.jsonl")
    printed = installed.run(
        *("penstock", "run", *options, str(project / "job.py"), "--input", data)
    ).stdout
    assert "attic rises: 25.5 degrees" in printed


def test_the_wheel_of_the_sdist_is_the_wheel(built, place):
    unpacked = place / "sdist"
    with tarfile.open(built.sdist) as sdist:
        sdist.extractall(unpacked, filter="data")
    (tree,) = unpacked.iterdir()
    with zipfile.ZipFile(built.wheel) as wheel:
        for name in wheel.namelist():
            if name.startswith("penstock/"):
                assert wheel.read(name) == (tree / name).read_bytes(), name
