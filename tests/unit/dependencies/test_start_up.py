"""What starts fast: importing the API and asking the command line load no other package."""

from __future__ import annotations

import subprocess
import sys

import pytest

# Prints the packages that a statement loads, besides Penstock and Python's own.
LOADED = """
import sys
before = set(sys.modules)
{statement}
after = {{name.partition(".")[0] for name in set(sys.modules) - before}}
print("loaded:", *sorted(after - sys.stdlib_module_names - {{"penstock"}}))
"""


def loaded(statement):
    done = subprocess.run(
        [sys.executable, "-c", LOADED.format(statement=statement)],
        check=True,
        capture_output=True,
        text=True,
    )
    return done.stdout.splitlines()[-1].split()[1:]


@pytest.mark.parametrize(
    "statement",
    [
        "import penstock",
        "import penstock.common, penstock.datastream, penstock.table, penstock.cep",
        "from penstock.datastream import StreamExecutionEnvironment as environment; environment",
        "from penstock.cli.main import create_parser; create_parser().format_help()",
        "from penstock.cli.main import main; main(['version'])",
    ],
)
def test_no_other_package_is_loaded(statement):
    assert loaded(statement) == []


def test_a_package_that_is_loaded_is_found():
    assert "msgspec" in loaded("import msgspec")
