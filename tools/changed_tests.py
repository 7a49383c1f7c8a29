#!/usr/bin/env python
"""Run the tests that a change can affect.

    python tools/changed_tests.py                   run them
    python tools/changed_tests.py --list            only print them
    python tools/changed_tests.py --why tests/...   print why one of them is affected
    python tools/changed_tests.py --full            also the tests that `make test` leaves out
    python tools/changed_tests.py -- -x -k name     the rest goes to pytest

What has changed: everything that differs from `--base`, committed or not, and files that git does not know yet. Without `--base`
that is where this branch has left origin/main; in a repository without origin/main it is the last commit.

What a change can affect is read from the source (file_graph.py): imports, modules and files that strings name, fixtures. Code that
finds modules in another way is not seen, so this is for the way to a commit; `make test` decides.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from file_graph import FactsCache, FileGraph
from run_tests import CI_PART, NO_TESTS, SUITES

ROOT = Path(__file__).parents[1]
MAIN = "origin/main"

#: A change of one of these can affect every test.
EVERYTHING = frozenset({"Makefile", "pyproject.toml", "tools/setup.sh"})
#: What `tools/check_js.sh` looks at.
JAVASCRIPT = ("penstock/web/", "tests/web/")
JAVASCRIPT_FILES = frozenset(
    {
        ".npmrc",
        "biome.json",
        "package-lock.json",
        "package.json",
        "tools/check_js.sh",
        "tsconfig.json",
    }
)
PAGE = "penstock/web/static/"
#: Who imports this looks at the page, in a browser or not.
PAGE_READERS = ("penstock/web/", "tests/builders/chromium.py")


@dataclass(frozen=True, slots=True)
class Affected:
    """What a change can affect."""

    tests: tuple[str, ...]
    #: whether the checks of the page's JavaScript are to be run
    javascript: bool
    #: changed files that no test depends on
    without_tests: tuple[str, ...]


def affected(graph: FileGraph, changed: Iterable[str]) -> Affected:
    """Return what a change of these files can affect."""
    changed = sorted(set(changed))
    javascript = any(path.startswith(JAVASCRIPT) or path in JAVASCRIPT_FILES for path in changed)
    tests: set[str] = set()
    without = []
    for path in changed:
        found = _tests_of(graph, path)
        tests |= found
        if not found and not path.startswith(JAVASCRIPT) and path not in JAVASCRIPT_FILES:
            without.append(path)
    return Affected(tuple(sorted(tests)), javascript, tuple(without))


def _tests_of(graph: FileGraph, path: str) -> set[str]:
    if path in EVERYTHING:
        return set(graph.tests)
    return graph.dependents(seeds(graph, path)).intersection(graph.tests)


def seeds(graph: FileGraph, path: str) -> set[str]:
    """Return the files that a change is followed from: the changed one, or those that stand for it."""
    if path.startswith(PAGE):
        # Every server sends the page, but only few tests look at it.
        readers = {each for prefix in (*PAGE_READERS, path) for each in graph.importers(prefix)}
        return readers.intersection(graph.tests)
    if path.endswith(".py") or len(graph.dependents([path])) > 1:
        return {path}
    # No other file names it, so it is found together with its neighbours.
    for parent in PurePosixPath(path).parents:
        beside = {
            each
            for each in graph.files
            if each.endswith(".py") and PurePosixPath(each).parent == parent
        }
        if beside and parent != PurePosixPath("."):
            return {path, *beside}
    return {path}


def changed_files(root: Path, base: str | None) -> tuple[list[str], str]:
    """Return the files that differ from a commit, and the name of that commit."""
    if base is None:
        base = "HEAD"
        if _git(root, "rev-parse", "--verify", "--quiet", MAIN, check=False):
            base = _git(root, "merge-base", MAIN, "HEAD")[0]
    differing = _git(root, "diff", "--name-only", "--no-renames", base, "--")
    unknown = _git(root, "ls-files", "--others", "--exclude-standard")
    return sorted({*differing, *unknown}), base


def read_graph(root: Path, changed: Iterable[str], cache: FactsCache | None = None) -> FileGraph:
    """Read the files of a repository. Deleted files are included: other files may still import them."""
    known = _git(root, "ls-files", "--cached", "--others", "--exclude-standard")
    there = {path for path in known if (root / path).is_file()}
    return FileGraph(root, there, (path for path in changed if path not in there), cache)


def _git(root: Path, *arguments: str, check: bool = True) -> list[str]:
    command = ["git", "-c", "core.quotePath=false", *arguments]
    answer = subprocess.run(command, cwd=root, check=check, capture_output=True, text=True)
    return answer.stdout.splitlines()


def commands(tests: Sequence[str], *, full: bool, more: Sequence[str] = ()) -> list[list[str]]:
    """Return the commands that run these test modules, by suite."""
    found = []
    for suite in SUITES:
        chosen = [path for path in tests if PurePosixPath(path).parts[1] in suite.folders]
        if chosen:
            part = () if full else CI_PART
            found.append(suite.command((*part, *more, "--"), chosen))
    return found


def run(command: Sequence[str], root: Path) -> int:
    """Run a command with the JDK that set-up found."""
    home = root / ".venv" / "java_home"
    java = {"JAVA_HOME": home.read_text().strip()} if home.is_file() else {}
    return subprocess.run(command, cwd=root, env={**os.environ, **java}, check=False).returncode


def explain(graph: FileGraph, test: str, changed: Iterable[str]) -> list[str]:
    """Return the ways from a test to what has changed, as lines."""
    lines = []
    for path in changed:
        if path in EVERYTHING:
            lines.append(f"{path}: every test depends on it")
            continue
        way = graph.chain(test, seeds(graph, path))
        if way:
            lines.append(f"{path}:")
            lines += [f"  {name} {why}".rstrip() for name, why in way]
            if way[-1][0] != path:
                lines.append(f"  which stands for {path}")
    return lines or [f"{test} does not depend on what has changed"]


def summary(found: Affected, total: int, changed: int, base: str) -> str:
    """Return what was selected, in one line."""
    files = f"{changed} changed file{'' if changed == 1 else 's'} (against {base[:12]})"
    if not found.tests and not found.javascript:
        return f"nothing to run: no test depends on {files}"
    suites = Counter(PurePosixPath(path).parts[1] for path in found.tests)
    parts = ", ".join(f"{number} {suite}" for suite, number in sorted(suites.items()))
    javascript = ", and the checks of the page's JavaScript" if found.javascript else ""
    return (
        f"{len(found.tests)} of {total} test modules{f' ({parts})' if parts else ''}{javascript} "
        f"can be affected by {files}"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Select tests and run them."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--base", metavar="COMMIT", help="what the files are compared with")
    parser.add_argument("--full", action="store_true", help="all tests, as `make test-full`")
    parser.add_argument("--list", action="store_true", help="print the test modules, run none")
    parser.add_argument("--why", metavar="TEST", help="print why this test module is affected")
    parser.add_argument("pytest", nargs="*", help="options of pytest, after --")
    options = parser.parse_args(arguments)
    changed, base = changed_files(ROOT, options.base)
    cache = FactsCache(ROOT / ".venv" / "file_facts")
    graph = read_graph(ROOT, changed, cache)
    if options.why:
        if options.why not in graph.tests:
            parser.error(f"unknown test module: {options.why}")
        print("\n".join(explain(graph, options.why, changed)))
        return 0
    found = affected(graph, changed)
    cache.save()
    print(summary(found, len(graph.tests), len(changed), base))
    for path in found.without_tests:
        print(f"  no test depends on {path}")
    if options.list:
        print("\n".join(found.tests))
        return 0
    failed = 0
    javascript = [["tools/check_js.sh"]] if found.javascript else []
    for command in [*javascript, *commands(found.tests, full=options.full, more=options.pytest)]:
        status = run(command, ROOT)
        if status not in {0, NO_TESTS}:
            failed = status
    return failed


if __name__ == "__main__":
    sys.exit(main())
