"""Which tests a change can affect, in small repositories and in this one."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.builders.loading import load_tool

ROOT = Path(__file__).parents[2]


load_tool("package_imports")
file_graph = load_tool("file_graph")
run_tests = load_tool("run_tests")
changed_tests = load_tool("changed_tests")

PENSTOCK = {
    "penstock/__init__.py": "",
    "penstock/errors.py": "",
    "penstock/specs.py": 'OPERATOR = "penstock.operators.join:JoinOperator"',
    "penstock/operators/__init__.py": "from penstock.operators.join import JoinOperator\n"
    "from penstock.operators.window import WindowOperator",
    "penstock/operators/join.py": "import penstock.errors",
    "penstock/operators/window.py": "def fire():\n    from penstock import errors",
    "penstock/types_only.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n"
    "    from penstock.operators import join",
}


@pytest.fixture
def repository(tmp_path):
    """Write files, and return the tests that a change of one of them can affect."""

    def write(files: dict[str, str]):
        files = PENSTOCK | files
        for path, text in files.items():
            (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / path).write_text(text)
        graph = file_graph.FileGraph(tmp_path, files)
        return lambda *changed: set(changed_tests.affected(graph, changed).tests)

    return write


def test_a_test_is_affected_by_itself_and_by_all_that_it_imports(repository):
    affected = repository(
        {
            "tests/unit/test_join.py": "from penstock.operators.join import JoinOperator",
            "tests/unit/test_other.py": "import json",
        }
    )
    for path in ("tests/unit/test_join.py", "penstock/operators/join.py", "penstock/errors.py"):
        assert affected(path) == {"tests/unit/test_join.py"}, path
    assert affected("penstock/operators/window.py") == set()


def test_imports_inside_functions_count(repository):
    affected = repository({"tests/unit/test_it.py": "from penstock.operators import window"})
    assert affected("penstock/errors.py") == {"tests/unit/test_it.py"}


def test_imports_for_the_type_checker_do_not_count(repository):
    affected = repository({"tests/unit/test_it.py": "import penstock.types_only"})
    assert affected("penstock/types_only.py") == {"tests/unit/test_it.py"}
    assert affected("penstock/operators/join.py") == set()


def test_a_name_of_a_package_leads_to_the_module_that_it_comes_from(repository):
    affected = repository(
        {"tests/unit/test_it.py": "from penstock.operators import WindowOperator"}
    )
    assert affected("penstock/operators/window.py") == {"tests/unit/test_it.py"}
    assert affected("penstock/operators/join.py") == set()
    # `__init__.py` is run, so a mistake in it is seen
    assert affected("penstock/operators/__init__.py") == {"tests/unit/test_it.py"}
    assert affected("penstock/__init__.py") == {"tests/unit/test_it.py"}


def test_a_name_that_a_package_finds_when_it_is_asked_leads_to_the_whole_package(repository):
    affected = repository(
        {
            "penstock/lazy/__init__.py": "import penstock.operators.join\n\n"
            "def __getattr__(name): ...",
            "tests/unit/test_it.py": "from penstock.lazy import Something",
        }
    )
    assert affected("penstock/operators/join.py") == {"tests/unit/test_it.py"}


def test_a_whole_package_leads_to_all_that_it_imports(repository):
    affected = repository({"tests/unit/test_it.py": "import penstock.operators"})
    assert affected("penstock/operators/join.py") == {"tests/unit/test_it.py"}


def test_an_operator_that_only_an_address_names_affects_the_tests_of_its_spec(repository):
    affected = repository(
        {
            "tests/unit/test_specs.py": "from penstock.specs import OPERATOR",
            "tests/unit/test_window.py": "from penstock.operators.window import fire",
        }
    )
    assert affected("penstock/operators/join.py") == {"tests/unit/test_specs.py"}


def test_a_deleted_module_affects_those_that_still_import_it(tmp_path):
    test = tmp_path / "tests" / "unit" / "test_it.py"
    test.parent.mkdir(parents=True)
    test.write_text("import penstock.gone")
    graph = file_graph.FileGraph(tmp_path, ["tests/unit/test_it.py"], ["penstock/gone.py"])
    assert changed_tests.affected(graph, ["penstock/gone.py"]).tests == ("tests/unit/test_it.py",)


def test_a_conftest_affects_the_tests_below_it(repository):
    affected = repository(
        {
            "tests/conftest.py": "",
            "tests/unit/cep/conftest.py": "",
            "tests/unit/cep/test_a.py": "",
            "tests/unit/test_b.py": "",
        }
    )
    assert affected("tests/unit/cep/conftest.py") == {"tests/unit/cep/test_a.py"}
    assert affected("tests/conftest.py") == {"tests/unit/cep/test_a.py", "tests/unit/test_b.py"}


def test_what_a_fixture_imports_affects_the_tests_that_use_it(repository):
    affected = repository(
        {
            "tests/conftest.py": "import pytest\nfrom tests.clusters import own, hook\n\n"
            "@pytest.fixture\ndef cluster():\n    return helper()\n\ndef helper():\n    own()\n\n"
            "@pytest.fixture\ndef through(cluster): ...\n\n"
            "def pytest_configure():\n    from tests import always\n",
            "tests/clusters.py": "import penstock.operators.join",
            "tests/unit/test_with.py": "def test(cluster): ...",
            "tests/unit/test_through.py": "def test(through): ...",
            "tests/unit/test_marked.py": "pytestmark = usefixtures('cluster')",
            "tests/unit/test_without.py": "def test(tmp_path): ...",
        }
    )
    assert affected("penstock/operators/join.py") == {
        "tests/unit/test_with.py",
        "tests/unit/test_through.py",
        "tests/unit/test_marked.py",
    }


def test_what_an_automatic_fixture_imports_affects_all_tests_below_it(repository):
    affected = repository(
        {
            "tests/unit/conftest.py": "import pytest\nfrom tests.clusters import own\n\n"
            "@pytest.fixture(autouse=True)\ndef cluster():\n    own()\n",
            "tests/clusters.py": "",
            "tests/unit/test_a.py": "",
            "tests/jobs/test_b.py": "",
        }
    )
    assert affected("tests/clusters.py") == {"tests/unit/test_a.py"}


def test_files_that_a_test_names_affect_it(repository):
    affected = repository(
        {
            "docs/state.md": "",
            "docs/cep.md": "",
            "examples/demo.py": "import penstock.operators.window",
            "tests/data/answers.json": "",
            "tests/unit/test_page.py": 'PAGE = ROOT / "docs" / "state.md"',
            "tests/unit/test_answers.py": 'ANSWERS = "tests/data/answers.json"',
            "tests/unit/test_all_pages.py": 'PAGES = (ROOT / "docs").glob("*.md")',
            "tests/e2e/test_demo.py": 'SCRIPT = ROOT / "examples" / "demo.py"',
        }
    )
    assert affected("docs/state.md") == {"tests/unit/test_page.py", "tests/unit/test_all_pages.py"}
    assert affected("docs/cep.md") == {"tests/unit/test_all_pages.py"}
    assert affected("tests/data/answers.json") == {"tests/unit/test_answers.py"}
    assert affected("penstock/operators/window.py") == {"tests/e2e/test_demo.py"}


def test_a_program_in_a_string_affects_the_test_that_runs_it(repository):
    affected = repository(
        {
            "tests/jobs/test_run.py": 'PROGRAM = """\nfrom pyflink.operators import '
            'WindowOperator\n"""'
        }
    )
    assert affected("penstock/operators/window.py") == {"tests/jobs/test_run.py"}
    assert affected("penstock/operators/join.py") == set()


def test_a_test_of_the_command_depends_on_what_the_command_imports(repository):
    affected = repository(
        {
            "penstock/__main__.py": "import penstock.operators.window",
            "tests/e2e/test_command.py": 'run("penstock", "run")',
        }
    )
    assert affected("penstock/operators/window.py") == {"tests/e2e/test_command.py"}


def test_a_test_that_reads_the_source_depends_on_all_of_it(repository):
    affected = repository({"tests/unit/test_rules.py": 'ROOT.rglob("*.py")'})
    assert affected("penstock/types_only.py") == {"tests/unit/test_rules.py"}


def test_programs_beside_a_test_are_found_without_a_package(repository):
    affected = repository(
        {
            "tests/faults/jobs/programs.py": "import penstock.operators.window",
            "tests/faults/runs.py": "import programs",
            "tests/faults/test_it.py": "from runs import run",
        }
    )
    assert affected("penstock/operators/window.py") == {"tests/faults/test_it.py"}


def test_an_unreferenced_file_is_found_with_its_neighbours(repository):
    affected = repository(
        {
            "tools/servers/kafka.py": "",
            "tools/servers/kafka.pom.xml": "",
            "tests/connectors/test_kafka.py": "from tools.servers.kafka import Broker",
            "LICENSE": "",
        }
    )
    assert affected("tools/servers/kafka.pom.xml") == {"tests/connectors/test_kafka.py"}
    assert affected("LICENSE") == set()


def test_the_build_affects_everything(repository):
    affected = repository({"tests/unit/test_a.py": "", "tests/e2e/test_b.py": ""})
    for path in ("Makefile", "pyproject.toml", "tools/setup.sh"):
        assert affected(path) == {"tests/unit/test_a.py", "tests/e2e/test_b.py"}


def test_the_page_affects_tests_that_look_at_it_and_the_checks_of_javascript(tmp_path):
    files = {
        **PENSTOCK,
        "penstock/web/assets.py": 'ROOT = HERE / "static"',
        "penstock/web/static/app/main.js": "",
        "penstock/server.py": "from penstock.web import assets",
        "tests/builders/chromium.py": "",
        "tests/e2e/test_page.py": "from tests.builders.chromium import browser",
        "tests/unit/test_assets.py": "from penstock.web import assets",
        "tests/unit/test_server.py": "from penstock.server import serve",
        "tests/web/format.test.js": "",
    }
    for path, text in files.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    graph = file_graph.FileGraph(tmp_path, files)
    found = changed_tests.affected(graph, ["penstock/web/static/app/main.js"])
    assert found.tests == ("tests/e2e/test_page.py", "tests/unit/test_assets.py")
    assert found.javascript
    assert found.without_tests == ()
    only_javascript = changed_tests.affected(graph, ["tests/web/format.test.js"])
    assert (only_javascript.tests, only_javascript.javascript) == ((), True)
    assert not changed_tests.affected(graph, ["penstock/errors/__init__.py"]).javascript


def test_a_file_is_read_again_when_it_has_changed(tmp_path):
    test = tmp_path / "tests" / "test_it.py"
    test.parent.mkdir()
    test.write_text("import penstock.one")
    files = ["tests/test_it.py", "penstock/one.py", "penstock/other.py"]

    def targets():
        cache = file_graph.FactsCache(tmp_path / "cache")
        found = file_graph.FileGraph(tmp_path, files, cache=cache).targets("tests/test_it.py")
        cache.save()
        return set(found)

    assert targets() == targets() == {"penstock/one.py"}
    test.write_text("import penstock.other")
    assert targets() == {"penstock/other.py"}


def test_what_is_kept_is_not_read_again(tmp_path):
    file = tmp_path / "module.py"
    file.write_text("")
    cache = file_graph.FactsCache(tmp_path / "cache")
    facts = file_graph.Facts((), frozenset({"kept"}), frozenset())
    cache.put(file, facts)
    cache.save()
    assert file_graph.FactsCache(tmp_path / "cache").get(file) == facts


def test_a_damaged_cache_is_an_empty_one(tmp_path):
    file = tmp_path / "module.py"
    file.write_text("")
    (tmp_path / "cache").write_bytes(b"no pickle")
    assert file_graph.FactsCache(tmp_path / "cache").get(file) is None


def test_suites_run_with_the_commands_of_make_test():
    tests = ["tests/connectors/test_a.py", "tests/e2e/test_b.py", "tests/unit/test_c.py"]
    ran = [command[4:] for command in changed_tests.commands(tests, full=False, more=["-x"])]
    assert ran == [
        [*run_tests.WORKERS, *run_tests.CI_PART, "-x", "--", tests[2]],
        ["-n", "2", "--dist", "loadgroup", *run_tests.CI_PART, "-x", "--", tests[0]],
        [*run_tests.CI_PART, "-x", "--", tests[1]],
    ]
    assert "-m" not in changed_tests.commands(tests, full=True)[0][4:]
    assert changed_tests.commands([], full=True) == []


def git(root: Path, *arguments: str) -> None:
    who = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false")
    subprocess.run(["git", *who, *arguments], cwd=root, check=True, capture_output=True)


@pytest.fixture
def branch(tmp_path):
    """A repository with one commit on main, and another one after it."""
    git(tmp_path, "init", "-q", "-b", "main")
    for name in ("first.py", "renamed.py", "untouched.py"):
        (tmp_path / name).write_text(f"# {name}\n" * 5)
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-q", "-m", "one")
    git(tmp_path, "branch", "there")
    (tmp_path / "first.py").write_text("changed")
    git(tmp_path, "mv", "renamed.py", "moved.py")
    git(tmp_path, "commit", "-q", "-a", "-m", "two")
    (tmp_path / "untracked.py").write_text("")
    return tmp_path


def test_without_an_upstream_what_is_not_committed_has_changed(branch):
    (branch / "untouched.py").write_text("now it is")
    assert changed_tests.changed_files(branch, None) == (["untouched.py", "untracked.py"], "HEAD")


def test_with_an_upstream_all_since_the_branch_left_it_has_changed(branch):
    git(branch, "update-ref", "refs/remotes/origin/main", "there")
    changed, base = changed_tests.changed_files(branch, None)
    assert changed == ["first.py", "moved.py", "renamed.py", "untracked.py"]
    assert len(base) == 40


def test_a_base_can_be_named(branch):
    changed, base = changed_tests.changed_files(branch, "there")
    assert changed == ["first.py", "moved.py", "renamed.py", "untracked.py"]
    assert base == "there"


def test_the_summary_says_what_and_how_many():
    found = changed_tests.Affected(
        ("tests/jobs/test_a.py", "tests/unit/test_b.py", "tests/unit/test_c.py"), True, ()
    )
    assert changed_tests.summary(found, 500, 1, "HEAD") == (
        "3 of 500 test modules (1 jobs, 2 unit), and the checks of the page's JavaScript "
        "can be affected by 1 changed file (against HEAD)"
    )
    nothing = changed_tests.Affected((), javascript=False, without_tests=("LICENSE",))
    assert changed_tests.summary(nothing, 500, 2, "HEAD") == (
        "nothing to run: no test depends on 2 changed files (against HEAD)"
    )


def test_an_explanation_follows_the_imports(repository, tmp_path):
    repository({"tests/unit/test_specs.py": "from penstock.specs import OPERATOR"})
    files = [*PENSTOCK, "tests/unit/test_specs.py"]
    graph = file_graph.FileGraph(tmp_path, files)
    test = "tests/unit/test_specs.py"
    assert changed_tests.explain(graph, test, ["penstock/operators/join.py", "Makefile"]) == [
        "penstock/operators/join.py:",
        "  tests/unit/test_specs.py imports",
        "  penstock/specs.py names",
        "  penstock/operators/join.py",
        "Makefile: every test depends on it",
    ]
    assert changed_tests.explain(graph, test, ["penstock/types_only.py"]) == [
        "tests/unit/test_specs.py does not depend on what has changed"
    ]


@pytest.fixture(scope="module")
def this_repository():
    graph = file_graph.FileGraph(
        ROOT,
        [
            path.relative_to(ROOT).as_posix()
            for top in ("penstock", "tests", "tools", "examples", "benchmarks", "docs")
            for path in (ROOT / top).rglob("*")
            if path.is_file() and "__pycache__" not in path.parts
        ],
    )
    return lambda test, changed: graph.chain(test, [changed])


def test_the_automaton_of_patterns_affects_tests_of_patterns_and_not_of_kafka(this_repository):
    changed = "penstock/runtime/cep/engine/nfa.py"
    assert this_repository("tests/jobs/cep/test_example.py", changed)
    assert this_repository("tests/sql/test_recorded.py", changed)  # MATCH_RECOGNIZE
    for test in (
        "tests/connectors/kafka/test_broker.py",
        "tests/unit/connectors/kafka/test_reader.py",
    ):
        assert this_repository(test, changed) == []
        assert this_repository(test, "penstock/connectors/kafka/reader.py")


def test_an_operator_affects_tests_of_streams_through_its_address(this_repository):
    way = this_repository(
        "tests/jobs/cep/test_example.py", "penstock/runtime/operators/two_inputs/interval_join.py"
    )
    assert ("penstock/graph/operator_specs/two_inputs.py", "names") in way


@pytest.mark.parametrize(
    "test",
    [
        "tests/unit/cep/test_docs.py",
        "tests/jobs/cep/test_example.py",
        "tests/sql/test_recorded.py",
        "tests/zoo/test_zoo_faults.py",
        "tests/connectors/kafka/test_broker.py",
        "tests/spark/test_joins.py",
        "tests/faults/test_exactly_once.py",
        "tests/e2e/test_demo.py",
    ],
)
def test_the_errors_affect_all_suites(this_repository, test):
    assert this_repository(test, "penstock/errors/__init__.py")
