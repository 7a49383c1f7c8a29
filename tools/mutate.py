#!/usr/bin/env python
"""Change a module in small ways, and list the changes that no test notices.

    python tools/mutate.py penstock/sql/rules                          all mutants of a package
    python tools/mutate.py --sample 100 --seed 3 penstock/sql/logical  100 of them, by chance
    python tools/mutate.py --lines 40-90 penstock/sql/rules/optimizer.py
    python tools/mutate.py --tests tests/unit/sql penstock/sql/rules   other tests than those below
    python tools/mutate.py --untraced --tests tests/unit/sql/physical/test_plan_details.py penstock/sql/rules
                                                                       few fast tests, all of them for each mutant
    python tools/mutate.py --full ...                                  as many tests and examples as `make test-full`

First every test runs once under a tracer, which notes the lines that it runs; `--coverage FILE` keeps that for the next call.
Then each mutant runs in a fork of this process, in which its functions have other code: first the tests that noticed others of
its module, then the fastest ones, until one fails. Only tests that run a line of the mutant are run. One that runs out of time
(`--budget` seconds of processor time) has been noticed if a test hung, and has survived if all tests passed so far.

A survivor is not always a fault of the tests: some mutants do the same as the code, only slower.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import pickle
import pkgutil
import random
import resource
import signal
import sys
import time
import types
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from mutants import Mutant, mutants

ROOT = Path(__file__).parents[1]
TESTS = ("tests/unit/sql", "tests/unit/runtime/columnar")
#: Imported before the first fork, so that functions are there to be changed.
PRELOADED = ("penstock.sql", "penstock.runtime.columnar", "penstock.graph")
NOTICED, SURVIVED, WITHOUT_TESTS, NOT_APPLIED = 10, 11, 12, 13
NAMES = {NOTICED: "noticed", SURVIVED: "survived", WITHOUT_TESTS: "no test runs it"}
#: A test that takes so many times what it took before hangs.
PATIENCE = 8


@dataclass
class Covered:
    """What each test runs, and how long it takes."""

    lines: dict[str, dict[str, set[int]]] = field(default_factory=dict)  # by test and file
    seconds: dict[str, float] = field(default_factory=dict)

    def tests(self, path: str, lines: Iterable[int]) -> list[str]:
        """Return the tests that run one of some lines, the fastest first."""
        wanted = set(lines)
        found = [name for name, files in self.lines.items() if wanted & files.get(path, set())]
        return sorted(found, key=self.seconds.__getitem__)


class Runner:
    """A pytest plugin: instead of running the tests, it runs them for each mutant."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.failed = False
        self.result = 0
        self.began = 0.0

    @pytest.hookimpl(trylast=True)
    def pytest_configure(self) -> None:
        """Let Hypothesis stop at the first example that fails."""
        from hypothesis import Phase, settings

        name = "full" if self.options.full else "ci"
        phases = [Phase.explicit, Phase.generate]
        settings.register_profile(name, parent=settings.get_profile(name), phases=phases)
        settings.load_profile(name)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note what has failed."""
        self.failed = self.failed or report.failed

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Run the tests for each mutant."""
        from tests.builders import cases

        for package in PRELOADED:
            _import_all(package)
        cases.stop_at_first_failure()
        items = {item.nodeid: item for item in session.items}
        covered = self._untraced(items) if self.options.untraced else self._covered(items)
        chosen = list(self._chosen())
        self.result = Round(self, items, covered, chosen).run()
        return True

    def _untraced(self, items: dict[str, pytest.Item]) -> Covered:
        """Take all tests for tests of every line of the modules that are changed."""
        lines = {path: set(range(10_000)) for path in _files(self.options.paths)}
        return Covered(dict.fromkeys(items, lines), dict.fromkeys(items, 1.0))

    def _chosen(self) -> Iterator[Mutant]:
        rng, options = random.Random(self.options.seed), self.options
        found = [
            mutant
            for path in _files(options.paths)
            for mutant in mutants((ROOT / path).read_text(encoding="utf-8"), path)
            if options.lines is None or options.lines[0] <= mutant.line <= options.lines[1]
        ]
        if options.sample is None or options.sample >= len(found):
            return iter(found)
        return iter(rng.sample(found, options.sample))

    def _covered(self, items: dict[str, pytest.Item]) -> Covered:
        kept = Path(self.options.coverage) if self.options.coverage else None
        if kept is not None and kept.exists():
            covered = pickle.loads(kept.read_bytes())
        else:
            covered = Covered()
        missing = [each for name, each in items.items() if name not in covered.lines]
        if missing:
            more = self._traced(missing)
            covered.lines.update(more.lines)
            covered.seconds.update(more.seconds)
            if kept is not None:
                kept.write_bytes(pickle.dumps(covered))
        return covered

    def _traced(self, items: list[pytest.Item]) -> Covered:
        """Run all tests in a fork, and note which lines they run."""
        receives, sends = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(receives)
            covered = self._trace(items)
            with os.fdopen(sends, "wb") as stream:
                pickle.dump(covered, stream)
            os._exit(0)
        os.close(sends)
        with os.fdopen(receives, "rb") as stream:
            covered = pickle.load(stream)
        os.waitpid(child, 0)
        return covered

    def _trace(self, items: list[pytest.Item]) -> Covered:
        covered = Covered()
        targets = {str(ROOT / path): path for path in _files(self.options.traced)}
        for item in items:
            seen: dict[str, set[int]] = defaultdict(set)
            self.failed, began = False, time.process_time()
            sys.settrace(_tracer(targets, seen))
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=None)
            sys.settrace(None)
            if self.failed:
                print(f"fails without any change, and is left out: {item.nodeid}", flush=True)
                seen.clear()
            covered.lines[item.nodeid] = dict(seen)
            covered.seconds[item.nodeid] = time.process_time() - began
        return covered


def _tracer(targets: dict[str, str], seen: dict[str, set[int]]) -> Any:
    def started(frame: types.FrameType, _event: str, _: Any) -> Any:
        path = targets.get(frame.f_code.co_filename)
        if path is None:
            return None
        lines = seen[path]
        lines.add(frame.f_lineno)

        def inside(frame: types.FrameType, _event: str, _: Any) -> Any:
            lines.add(frame.f_lineno)
            return inside

        return inside

    return started


class Round:
    """All mutants, several at a time."""

    def __init__(
        self,
        runner: Runner,
        items: dict[str, pytest.Item],
        covered: Covered,
        chosen: list[Mutant],
    ) -> None:
        self._runner, self._items, self._covered = runner, items, covered
        self._chosen = chosen
        self._options = runner.options
        #: how often a test has noticed a mutant of a file
        self._noticed: dict[str, Counter[str]] = defaultdict(Counter)
        self._running: dict[int, tuple[Mutant, int, float]] = {}
        self._results: list[tuple[Mutant, str, str]] = []

    def run(self) -> int:
        """Run them, and print what has survived."""
        for mutant in self._chosen:
            while len(self._running) >= self._options.jobs:
                self._wait()
            self._start(mutant)
        while self._running:
            self._wait()
        return self._report()

    def _start(self, mutant: Mutant) -> None:
        names = [
            name
            for name in self._covered.tests(mutant.path, range(mutant.line, mutant.last_line + 1))
            if name in self._items
        ]
        if not names and mutant.names:
            self._results.append((mutant, NAMES[WITHOUT_TESTS], ""))
            print(f"{NAMES[WITHOUT_TESTS]}: {mutant}", flush=True)
            return
        if not names:  # a module's own lines run when it is imported
            names = sorted(
                (n for n in self._items if self._covered.lines.get(n, {}).get(mutant.path)),
                key=self._covered.seconds.__getitem__,
            )
        counts = self._noticed[mutant.path]
        names.sort(key=lambda n: -counts[n] / (0.05 + self._covered.seconds[n]))
        receives, sends = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(receives)
            self._child(mutant, names, sends)
        os.close(sends)
        self._running[child] = (mutant, receives, time.monotonic())

    def _child(self, mutant: Mutant, names: list[str], sends: int) -> None:
        os.setpgid(0, 0)
        plugins = self._items[names[0]].config.pluginmanager
        plugins.unregister(plugins.get_plugin("terminalreporter"))
        quiet = os.open(os.devnull, os.O_WRONLY)
        os.dup2(quiet, 1)
        os.dup2(quiet, 2)
        outcome = NOT_APPLIED
        if apply(mutant):
            outcome = SURVIVED
            began = time.process_time()
            for name in names:
                limit = int(time.process_time() + 20 + PATIENCE * self._covered.seconds[name])
                resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 5))
                os.write(sends, f"{name}\n".encode())
                item = self._items[name]
                self._runner.failed = False
                try:
                    item.config.hook.pytest_runtest_protocol(item=item, nextitem=None)
                except BaseException:  # noqa: BLE001 - a mutant may end the test in any way
                    self._runner.failed = True
                if self._runner.failed:
                    outcome = NOTICED
                    break
                if time.process_time() - began > self._options.budget:
                    break
        os._exit(outcome)

    def _wait(self) -> None:
        """Wait for one of the mutants that run."""
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid in self._running:
                break
            now = time.monotonic()
            for child, (_, _, began) in self._running.items():
                if now - began > self._options.hangs:
                    os.killpg(child, signal.SIGKILL)
            time.sleep(0.01)
        mutant, receives, _ = self._running.pop(pid)
        with os.fdopen(receives, "rb") as stream:
            names = stream.read().decode().splitlines()
        last = names[-1] if names else ""
        code = os.waitstatus_to_exitcode(status)
        if code == NOT_APPLIED:
            return
        if code == SURVIVED:
            self._results.append((mutant, NAMES[SURVIVED], f"{len(names)} tests"))
            print(f"survived {len(names)} tests: {mutant}", flush=True)
            return
        self._noticed[mutant.path][last] += 1
        self._results.append((mutant, NAMES[NOTICED], last))

    def _report(self) -> int:
        packages: dict[str, Counter[str]] = defaultdict(Counter)
        for mutant, result, _ in self._results:
            packages[mutant.path][result] += 1
        total: Counter[str] = Counter()
        for package, counts in sorted(packages.items()):
            total += counts
            print(f"{counts[NAMES[NOTICED]]:5} of {counts.total():5} {package}")
        print(f"{total[NAMES[NOTICED]]:5} of {total.total():5} mutants were noticed")
        if self._options.json:
            rows = [(str(mutant), result, name) for mutant, result, name in self._results]
            Path(self._options.json).write_text(json.dumps(rows, indent=1), encoding="utf-8")
        return 0 if total.total() == total[NAMES[NOTICED]] else 1


# Changes of modules that are imported


def apply(mutant: Mutant) -> bool:
    """Let the functions of a module that is imported run a mutant's code; return whether anything has changed."""
    module = _module(mutant.path)
    if module is None:
        return False
    filename = module.__file__ or ""
    code = compile(mutant.tree(), filename, "exec", dont_inherit=True)
    source = (ROOT / mutant.path).read_text(encoding="utf-8")
    before = _codes(compile(source, filename, "exec", dont_inherit=True))
    changed = {
        key: made for key, made in _codes(code).items() if key in before and before[key] != made
    }
    applied = False
    gc.unfreeze()  # objects that are frozen are not listed
    for each in gc.get_objects():
        if isinstance(each, types.FunctionType) and each.__code__.co_filename == filename:
            made = changed.get(_key(each.__code__))
            if made is not None and made.co_freevars == each.__code__.co_freevars:
                each.__code__ = made
                applied = True
    return _apply_values(module, code) or applied


def _module(path: str) -> types.ModuleType | None:
    name = path.removesuffix(".py").replace("/", ".").removesuffix(".__init__")
    return sys.modules.get(name)


def _key(code: types.CodeType) -> tuple[str, int]:
    return (code.co_qualname, code.co_firstlineno)


def _codes(code: types.CodeType) -> dict[tuple[str, int], types.CodeType]:
    """Return the code of all functions, by what identifies them."""
    found = {}
    for each in code.co_consts:
        if isinstance(each, types.CodeType):
            found[_key(each)] = each
            found |= _codes(each)
    return found


def _apply_values(module: types.ModuleType, code: types.CodeType) -> bool:
    """Run the module again, and take over values of names, of classes and of parameters that have changed."""
    fresh = types.ModuleType(module.__name__)
    fresh.__dict__.update({"__file__": module.__file__, "__package__": module.__package__})
    kept = sys.modules[module.__name__]
    sys.modules[module.__name__] = fresh
    try:
        exec(code, fresh.__dict__)
    except Exception:  # noqa: BLE001 - a mutant that cannot be imported is none
        return False
    finally:
        sys.modules[module.__name__] = kept
    changed = False
    for name, value in list(vars(fresh).items()):
        old = vars(module).get(name)
        if name.startswith("__"):
            continue
        if isinstance(old, type) and isinstance(value, type) and old.__module__ == module.__name__:
            for attribute, new in vars(value).items():
                known = vars(old).get(attribute)
                changed = _take_over_defaults(known, new) or changed
                if _is_plain(new) and _is_plain(known) and new != known and attribute[:2] != "__":
                    setattr(old, attribute, new)
                    changed = True
        elif isinstance(old, types.FunctionType):
            changed = _take_over_defaults(old, value) or changed
        elif _is_plain(value) and _is_plain(old) and value != old:
            changed = True
            if isinstance(old, dict | set | list):
                old.clear()
                old.extend(value) if isinstance(old, list) else old.update(value)
            else:
                for other in list(sys.modules.values()):
                    if getattr(other, "__dict__", {}).get(name) is old:
                        setattr(other, name, value)
    return changed


def _take_over_defaults(old: Any, new: Any) -> bool:
    if not isinstance(old, types.FunctionType) or not isinstance(new, types.FunctionType):
        return False
    changed = False
    for name in ("__defaults__", "__kwdefaults__"):
        value = getattr(new, name)
        if value != getattr(old, name) and _is_plain(value):
            setattr(old, name, value)
            changed = True
    return changed


def _is_plain(value: Any) -> bool:
    """Whether a value consists of numbers, texts, and classes and functions of elsewhere."""
    match value:
        case dict():
            return all(_is_plain(each) for pair in value.items() for each in pair)
        case list() | tuple() | set() | frozenset():
            return all(map(_is_plain, value))
        case None | bool() | int() | float() | str():
            return True
        case type():
            return True
    return False


def _import_all(package: str) -> None:
    module = import_module(package)
    for each in pkgutil.walk_packages(module.__path__, f"{package}."):
        try:
            import_module(each.name)
        except ImportError as error:
            print(f"cannot import {each.name}: {error}")


def _files(paths: Iterable[str]) -> Iterator[str]:
    for path in paths:
        at = ROOT / path
        for each in [at] if at.is_file() else sorted(at.rglob("*.py")):
            yield each.relative_to(ROOT).as_posix()


def _range(text: str) -> tuple[int, int]:
    first, _, last = text.partition("-")
    return int(first), int(last or first)


def main() -> int:
    """Run the mutants that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("paths", nargs="+", help="modules or packages")
    parser.add_argument("--tests", nargs="+", default=list(TESTS))
    parser.add_argument("--traced", nargs="+", help="what --coverage is about; default: PATHS")
    parser.add_argument("--sample", type=int, help="so many mutants, by chance")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--lines", type=_range, help="only these lines")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--budget", type=float, default=60.0, help="seconds for a mutant")
    parser.add_argument("--hangs", type=float, default=600.0, help="seconds after which one hangs")
    parser.add_argument("--coverage", help="file that keeps which lines the tests run")
    parser.add_argument("--untraced", action="store_true", help="run all tests for each mutant")
    parser.add_argument("--json", help="file for the results")
    parser.add_argument("--full", action="store_true")
    options = parser.parse_args()
    options.traced = options.traced or options.paths
    os.chdir(ROOT)
    sys.path.insert(0, str(ROOT))
    runner = Runner(options)
    arguments = [*options.tests, "-qq", "-p", "no:cacheprovider", "-p", "no:xdist"]
    arguments += [] if options.full else ["-m", "not full"]
    arguments.append(f"--hypothesis-profile={'full' if options.full else 'ci'}")
    code = pytest.main(arguments, plugins=[runner])
    return runner.result or int(code not in (0, 5))


if __name__ == "__main__":
    sys.exit(main())
