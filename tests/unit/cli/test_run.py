"""The `penstock` command."""

from __future__ import annotations

import os
import sys

import pytest

import penstock
from penstock.cli import main
from penstock.datastream import StreamExecutionEnvironment
from tests.builders.scripts import run


def test_arguments_after_the_program_belong_to_the_program(write, capsys):
    script = write("import sys; print(sys.argv)")
    assert run(script, "-p", "3", "--no-spark", "-D") == 0
    assert capsys.readouterr().out == f"{[script, '-p', '3', '--no-spark', '-D']}\n"


SETTINGS = """
from pyflink.datastream import StreamExecutionEnvironment
env = StreamExecutionEnvironment.get_execution_environment()
configuration = env.get_configuration()
print(env.get_parallelism(), *[configuration.get_string(key, "none") for key in
      ("spark.master", "execution.state-recovery.path", "pipeline.name", "python.files")])
env.set_parallelism(1)
print(env.get_parallelism())
"""


def test_options_reach_the_environment_and_have_the_last_word(write, tmp_path, capsys):
    needed = tmp_path / "x.py"
    needed.touch()
    options = [
        "-p",
        "3",
        "-m",
        "local[2]",
        "-s",
        "/chk",
        "-D",
        "pipeline.name=a=b",
        "--py-files",
        str(needed),
    ]
    assert run(write(SETTINGS), options=options) == 0
    assert capsys.readouterr().out == f"3 local[2] /chk a=b {needed}\n3\n"


def test_options_are_gone_after_the_run(write):
    before = StreamExecutionEnvironment().get_configuration().to_dict()
    assert run(write(SETTINGS), options=["-p", "3"]) == 0
    assert StreamExecutionEnvironment().get_configuration().to_dict() == before


def test_flinks_way_to_write_an_option_works_too(write, capsys):
    assert run(write(SETTINGS), options=["-Dparallelism.default=5"]) == 0
    assert capsys.readouterr().out.startswith("5 ")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["-D", "nonsense"], "invalid option 'nonsense'"),
        (["-D", "paralelism.default=3"], "did you mean parallelism.default?"),
        (["-D", "parallelism.default=x"], "parallelism.default"),
        (["--session=localhost:1"], "--no-spark and --session are mutually exclusive"),
    ],
)
def test_a_wrong_option_is_refused_before_the_program_starts(write, capsys, options, message):
    assert run(write("print('started')"), options=options) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.startswith("penstock: ")
    assert message in output.err


def test_a_program_that_is_not_there_is_an_error(capsys):
    assert run("nowhere.py") == 2
    assert "cannot read the program nowhere.py" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "code", "shown"),
    [
        ("import sys; sys.exit(3)", 3, ""),
        ("import sys; sys.exit()", 0, ""),
        ("import sys; sys.exit('no input')", 1, "no input\n"),
        ("raise KeyboardInterrupt", 130, ""),
        ("def f(:", 1, "SyntaxError"),
    ],
    ids=repr,
)
def test_the_exit_code_is_the_programs(write, capsys, text, code, shown):
    assert run(write(text)) == code
    assert shown in capsys.readouterr().err


def test_the_traceback_of_a_program_begins_with_the_program(write, capsys):
    script = write("def fail():\n    raise ValueError('mine')\n\nfail()\n")
    assert run(script) == 1
    assert capsys.readouterr().err.splitlines()[:2] == [
        "Traceback (most recent call last):", f'  File "{script}", line 4, in <module>',
    ]  # fmt: skip


def test_a_wrong_call_shows_the_line_of_the_program_and_no_line_of_penstock(write, capsys):
    script = write(
        "from pyflink.datastream import StreamExecutionEnvironment\n"
        "StreamExecutionEnvironment.get_execution_environment().set_parallelism(0)\n"
    )
    assert run(script) == 1
    error = capsys.readouterr().err
    assert f'File "{script}", line 2' in error
    assert os.path.dirname(penstock.__file__) not in error


def test_an_error_from_a_thread_of_penstock_shows_no_line_of_futures(write, capsys):
    script = write(
        "from concurrent.futures import ThreadPoolExecutor\n"
        "from penstock.errors import CheckpointError\n"
        "def fail():\n    raise CheckpointError('gone')\n"
        "with ThreadPoolExecutor() as pool:\n    pool.submit(fail).result()\n"
    )
    assert run(script) == 1
    error = capsys.readouterr().err
    assert f'File "{script}", line 6' in error
    assert f'File "{script}", line 4, in fail' in error
    assert "futures" not in error.replace("from concurrent.futures", "")


def test_verbose_shows_all_frames_of_a_program_that_is_refused(write, capsys):
    wrong = "from penstock.common import Configuration\nConfiguration().set_string(1, 2)"
    shown = []
    for options in ([], ["--verbose"]):
        assert run(write(wrong), options=options) == 1
        shown.append(capsys.readouterr().err.count("configuration.py"))
    assert shown[0] == 0
    assert shown[1] > 0


def test_without_pyflink_the_name_means_pyflink(write, capsys):
    script = write("import pyflink_that_is_not_installed")
    assert run(script.replace("job", "job"), options=["--no-pyflink"]) == 1
    script = write(
        "import sys\nprint(any('Pyflink' in type(each).__name__ for each in sys.meta_path))"
    )
    assert run(script, options=["--no-pyflink"]) == 0
    assert run(script) == 0
    assert capsys.readouterr().out == "False\nTrue\n"


def test_the_process_is_as_before_after_a_run(write):
    before = sys.modules["__main__"], list(sys.argv), list(sys.path), dict(os.environ)
    run(write("import sys; sys.argv = []; raise ValueError"))
    assert (sys.modules["__main__"], list(sys.argv), list(sys.path), dict(os.environ)) == before


def test_the_version_is_shown(capsys):
    with pytest.raises(SystemExit) as caught:
        main(["--version"])
    assert caught.value.code == 0
    assert capsys.readouterr().out == f"penstock {penstock.__version__}\n"


def test_info_names_versions_and_places(capsys):
    assert main(["info"]) == 0
    shown = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines())
    assert shown["penstock"].startswith(penstock.__version__)
    assert shown["pyspark"].startswith("4.")
    assert sys.executable in shown["python"]


@pytest.mark.parametrize(
    ("options", "shown"),
    [
        ([], "False NO_CLAIM"),
        (["-n"], "True NO_CLAIM"),
        (["--allow-non-restored-state", "--claim-mode", "claim"], "True CLAIM"),
        (["-rm", "CLAIM"], "False CLAIM"),
    ],
    ids=" ".join,
)
def test_what_happens_to_restored_state_can_be_set(write, capsys, options, shown):
    script = write(
        "from penstock import options\n"
        "from penstock.datastream import StreamExecutionEnvironment\n"
        "configuration = StreamExecutionEnvironment.get_execution_environment().get_configuration()\n"
        "print(configuration.get(options.RECOVERY_IGNORE_UNCLAIMED),"
        " configuration.get(options.RECOVERY_CLAIM_MODE))\n"
    )
    assert run(script, options=options) == 0
    assert capsys.readouterr().out == f"{shown}\n"


def test_an_unknown_claim_mode_is_refused(write, capsys):
    with pytest.raises(SystemExit) as caught:
        run(write("print('started')"), options=["-rm", "MINE"])
    assert caught.value.code == 2
    assert "--claim-mode" in capsys.readouterr().err
