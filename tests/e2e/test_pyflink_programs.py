"""Programs written for PyFlink run unchanged and print what they print on Flink.

`programs/expected` has what PyFlink 2.3.0 printed for the same files, but for rows. PyFlink's print() joins the fields of a row
as Python shows them, `+I[a,None]`, and shows rows without a type as `<Row('a', None)>`; Penstock prints rows as Flink itself
does, `+I[a, null]`. The fields stand in the order of the declared type, also where PyFlink chains Python operators and
leaves them as they were made. A field that is a pickled object is shown as the object, not as its bytes.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

from penstock.cli import main

PROGRAMS = Path(__file__).parent / "programs"
NAMES = sorted(path.stem for path in (PROGRAMS / "expected").glob("*.txt"))
# The order of results is not defined here: several inputs, BATCH mode, unordered answers.
IN_ANY_ORDER = {"word_count", "async_inference", "basic_operations", "connected_streams"}
ON_SPARK = ["process_json", pytest.param("main_and_neighbour", marks=pytest.mark.ci)]


def by_prefix(text: str, *, ordered: bool) -> dict[str, list[str]]:
    """Sort printed lines to their print() calls; those of different calls come in any order."""
    lines: dict[str, list[str]] = defaultdict(list)
    for line in text.splitlines():
        prefix, found, _ = line.partition("> ")
        lines[prefix if found else ""].append(line)
    return dict(lines) if ordered else {key: sorted(found) for key, found in lines.items()}


def check(name: str, printed: str) -> None:
    ordered = name not in IN_ANY_ORDER
    expected = (PROGRAMS / "expected" / f"{name}.txt").read_text()
    assert by_prefix(printed, ordered=ordered) == by_prefix(expected, ordered=ordered)


def test_every_program_has_an_expected_output():
    programs = {path.stem for path in PROGRAMS.glob("*.py")} - {"neighbour"}
    assert programs == set(NAMES)


@pytest.mark.ci
@pytest.mark.parametrize("name", NAMES)
def test_a_program_prints_what_it_prints_on_flink(name, capsys):
    assert main(["run", "--no-spark", str(PROGRAMS / f"{name}.py")]) == 0
    check(name, capsys.readouterr().out)
    sys.modules.pop("neighbour", None)


@pytest.mark.parametrize("name", ON_SPARK)
def test_a_program_prints_the_same_on_spark(name, tmp_path):
    root = Path(__file__).parents[2]
    ended = subprocess.run(
        [
            sys.executable,
            "-m",
            "penstock",
            "run",
            "-m",
            "local[2]",
            "-D",
            "penstock.progress=never",
            str(PROGRAMS / f"{name}.py"),
        ],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    check(name, ended.stdout)


def test_a_program_reads_the_file_that_its_arguments_name(tmp_path, capsys):
    (tmp_path / "in.txt").write_text("one two\ntwo\n")
    assert (
        main(["run", "--no-spark", str(PROGRAMS / "word_count.py"), "--input", str(tmp_path)]) == 0
    )
    assert sorted(capsys.readouterr().out.splitlines()) == ["(one,1)", "(two,2)"]


def test_a_program_with_several_subtasks_names_them(tmp_path, capsys):
    program = tmp_path / "job.py"
    program.write_text(
        "from pyflink.datastream import StreamExecutionEnvironment\n"
        "env = StreamExecutionEnvironment.get_execution_environment()\n"
        "env.from_collection([1, 2]).rebalance().map(lambda n: n).print()\nenv.execute()\n"
    )
    assert main(["run", "--no-spark", "-p", "2", str(program)]) == 0
    assert sorted(capsys.readouterr().out.splitlines()) == ["1> 1", "2> 2"]
