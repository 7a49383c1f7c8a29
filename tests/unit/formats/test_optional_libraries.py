"""Libraries of extras are loaded when a schema is used, and named when they are missing."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

FORMATS = ["avro", "changelog", "confluent", "csv", "json", "orc", "parquet", "protobuf", "raw"]
HIDE = "import sys; sys.modules['{library}'] = None\n"


def run(program):
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False
    )
    return done.stdout + done.stderr


def test_no_module_of_formats_loads_a_library_of_an_extra():
    imports = "".join(f"import penstock.datastream.formats.{name}\n" for name in FORMATS)
    wanted = "('fastavro', 'google.protobuf', 'confluent_kafka')"
    assert run(f"{imports}import sys\nprint([n for n in {wanted} if n in sys.modules])") == "[]\n"


@pytest.mark.parametrize(
    ("library", "extra", "use"),
    [
        ("google.protobuf", "protobuf", "from penstock.datastream.formats.protobuf import *; ProtobufSerializationSchema(int)"),
        ("fastavro", "avro", "from penstock.datastream.formats.avro import *; AvroSchema('{}')"),
    ],
    ids=["protobuf", "avro"],
)  # fmt: skip
def test_a_missing_library_is_named_with_the_command_that_installs_it(library, extra, use):
    assert f"pip install 'penstock-stream[{extra}]'" in run(HIDE.format(library=library) + use)


def test_the_program_of_the_page_runs():
    page = (Path(__file__).parents[3] / "docs" / "how-to" / "file-formats.md").read_text()
    programs = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert programs
    for program in programs:
        exec(compile(program, "file-formats.md", "exec"), {"__name__": "page"})
