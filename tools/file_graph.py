"""Which files of the repository depend on which, read from the source text.

A Python file depends on what it imports, on modules that it names in strings (`"penstock.runtime.cep.cep_operator:CepOperator"`), and on files
that it names: a page of the docs, a recorded answer, a script that it runs. A test also depends on the fixtures that it uses.
Imports for the type checker only do not count.

A package is more than a module: who imports one name from it depends on the module that the name comes from, not on all that
its `__init__.py` imports. `__init__.py` itself is run, so it counts, but without what it leads to.
"""

from __future__ import annotations

import ast
import os
import pickle
import re
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path, PurePosixPath

import package_imports
from package_imports import Import, When, read_module

#: Marks a file that counts by itself, without what it depends on.
ALONE = "#alone"
PACKAGE = "penstock"
#: Programs that were written for PyFlink import Penstock under this name.
OTHER_NAME = "pyflink"

_TOP = frozenset({PACKAGE, OTHER_NAME, "tests", "tools", "benchmarks"})
_ADDRESS = re.compile(r"((?:penstock|pyflink|tests|tools|benchmarks)(?:\.\w+)*)(\.)?(?::\w+)?")
_IMPORT_LINE = re.compile(
    r"^\s*(?:from\s+((?:penstock|pyflink)[\w.]*)\s+import\s+\(?([\w, ]*)|import\s+((?:penstock|pyflink)[\w.]*))",
    re.MULTILINE,
)
_FILE_NAME = re.compile(r"[\w-]+(?:\.[\w-]+)+")


@dataclass(frozen=True, slots=True)
class Fixture:
    """A fixture or hook of a conftest: what it imports and which other fixtures it asks for."""

    automatic: bool
    imports: frozenset[str]
    arguments: frozenset[str]


@dataclass(frozen=True, slots=True)
class Facts:
    """What the text of a Python file says."""

    imports: tuple[Import, ...]
    strings: frozenset[str]
    #: names of parameters: in a test, the fixtures that it asks for
    arguments: frozenset[str]
    fixtures: Mapping[str, Fixture] = field(default_factory=dict)


def read_facts(source: str, name: str, *, is_package: bool, is_conftest: bool) -> Facts:
    """Return what a file says; `name` is the name of its module."""
    tree = ast.parse(source)
    strings: set[str] = set()
    arguments: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            strings.add(node.value)
        elif isinstance(node, ast.arg):
            arguments.add(node.arg)
    imports = read_module(source, name, is_package=is_package).imports
    return Facts(
        imports,
        frozenset(strings),
        frozenset(arguments),
        _fixtures(tree, imports) if is_conftest else {},
    )


def _fixtures(tree: ast.Module, imports: Iterable[Import]) -> dict[str, Fixture]:
    """Return the fixtures and hooks of a conftest by name."""
    bound = {each.name.rpartition(".")[2]: each.name for each in imports}
    functions = {
        node.name: node
        for node in tree.body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
    }
    found = {}
    for name, function in functions.items():
        if isinstance(function, ast.ClassDef):
            continue
        decorators = " ".join(ast.unparse(each) for each in function.decorator_list)
        if "fixture" not in decorators and not name.startswith("pytest_"):
            continue
        used = _names_used(function, functions)
        found[name] = Fixture(
            "autouse=True" in decorators or name.startswith("pytest_"),
            frozenset(bound[each] for each in used if each in bound),
            frozenset(each.arg for each in function.args.args),
        )
    return found


def _names_used(start: ast.AST, functions: Mapping[str, ast.AST]) -> set[str]:
    """Return the names that a function uses, and those of functions of the same file that it calls."""
    seen: set[str] = set()
    waiting = [start]
    while waiting:
        for node in ast.walk(waiting.pop()):
            if isinstance(node, ast.Name) and node.id not in seen:
                seen.add(node.id)
                if node.id in functions:
                    waiting.append(functions[node.id])
    return seen


class FactsCache:
    """Keeps what files say from one run to the next: reading all of them takes seconds. A file that has changed is read again."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._version = [_stamp(Path(each)) for each in (__file__, package_imports.__file__)]
        self._known: dict[Path, tuple[tuple[int, int], Facts]] = {}
        self._is_new = False
        try:
            version, known = pickle.loads(path.read_bytes())
        except (OSError, ValueError, EOFError, pickle.UnpicklingError, AttributeError, ImportError):
            return
        if version == self._version:
            self._known = known

    def get(self, path: Path) -> Facts | None:
        """Return what a file says, None if it has changed since."""
        stamp, facts = self._known.get(path, (None, None))
        return facts if stamp == _stamp(path) else None

    def put(self, path: Path, facts: Facts) -> None:
        """Remember what a file says."""
        self._known[path] = (_stamp(path), facts)
        self._is_new = True

    def save(self) -> None:
        """Write the cache, in one step: others may read it."""
        if self._is_new:
            fresh = self._path.with_suffix(f".{os.getpid()}")
            fresh.write_bytes(pickle.dumps((self._version, self._known)))
            fresh.replace(self._path)


def _stamp(path: Path) -> tuple[int, int]:
    found = path.stat()
    return found.st_mtime_ns, found.st_size


class FileGraph:
    """The files of a repository and what each depends on."""

    def __init__(
        self,
        root: Path,
        files: Iterable[str],
        deleted: Iterable[str] = (),
        cache: FactsCache | None = None,
    ) -> None:
        self.root = root
        self._cache = cache
        self._deleted = frozenset(deleted)
        self.files = frozenset(files) | self._deleted
        self._modules = {_module_name(path): path for path in self.files if path.endswith(".py")}
        # Files are read when they are asked for: a question about one test needs only what it depends on.
        self._facts: dict[str, Facts] = {}
        self._targets: dict[str, dict[str, str]] = {}
        self._by_name: dict[str, list[str]] = defaultdict(list)
        for path in sorted(self.files):
            self._by_name[PurePosixPath(path).name].append(path)

    @cached_property
    def tests(self) -> tuple[str, ...]:
        """Return all test modules."""
        return tuple(sorted(path for path in self.files if _is_test(path)))

    def targets(self, path: str) -> dict[str, str]:
        """Return what a file depends on, and why."""
        if path not in self._targets:
            self._targets[path] = self._find_targets(path) if path.endswith(".py") else {}
        return self._targets[path]

    def _find_targets(self, path: str) -> dict[str, str]:
        facts = self._read(path)
        found: dict[str, str] = {}
        for each in facts.imports:
            # Nearly everything depends on the root package, and only IPython calls its functions, to load an extension.
            if each.when is When.CALL and path == f"{PACKAGE}/__init__.py":
                continue
            if each.when is not When.TYPES:
                _add(found, self._resolve(each.name), "imports")
                _add(found, self._neighbours(path, each.name), "imports")
        _add(found, self._named_modules(path, facts), "names")
        _add(found, self._named_files(path, facts), "reads")
        if _is_test(path) or path.endswith("conftest.py"):
            _add(found, self._fixture_targets(path, facts), "uses fixtures of")
        found.pop(path, None)
        return found

    def _read(self, path: str) -> Facts:
        if path not in self._facts:
            self._facts[path] = (
                Facts((), frozenset(), frozenset())
                if path in self._deleted
                else self._read_file(path)
            )
        return self._facts[path]

    def _read_file(self, path: str) -> Facts:
        file = self.root / path
        if self._cache is not None and (known := self._cache.get(file)):
            return known
        facts = read_facts(
            file.read_text(),
            _module_name(path),
            is_package=path.endswith("/__init__.py"),
            is_conftest=path.endswith("conftest.py"),
        )
        if self._cache is not None:
            self._cache.put(file, facts)
        return facts

    def chain(self, start: str, goals: Iterable[str]) -> list[tuple[str, str]]:
        """Return a shortest way from a file to one of these: each file with why the next one is there; empty if there is none."""
        wanted = set(goals)
        wanted |= {goal + ALONE for goal in wanted}
        before: dict[str, str | None] = {start: None}
        waiting = deque([start])
        while waiting:
            path = waiting.popleft()
            if path in wanted:
                return self._way(path, before)
            for target in sorted(self.targets(path)):
                if target not in before:
                    before[target] = path
                    waiting.append(target)
        return []

    def _way(self, end: str, before: Mapping[str, str | None]) -> list[tuple[str, str]]:
        way = [(end.removesuffix(ALONE), "")]
        path = end
        while (previous := before[path]) is not None:
            way.append((previous, self.targets(previous)[path]))
            path = previous
        return way[::-1]

    def dependents(self, changed: Iterable[str]) -> set[str]:
        """Return all files that a change of these can affect, and these."""
        seen: set[str] = set()
        waiting = [each for path in changed for each in (path, path + ALONE)]
        while waiting:
            path = waiting.pop()
            if path not in seen:
                seen.add(path)
                waiting += self._reverse.get(path, ())
        return {path for path in seen if not path.endswith(ALONE)}

    @cached_property
    def _reverse(self) -> dict[str, list[str]]:
        """Return who depends on each file."""
        found: dict[str, list[str]] = defaultdict(list)
        for path in sorted(self.files):
            for target in self.targets(path):
                found[target].append(path)
        return found

    def importers(self, prefix: str) -> set[str]:
        """Return the files that import or name something below a folder, themselves and not through others."""
        return {
            path
            for target, others in self._reverse.items()
            if target.startswith(prefix)
            for path in others
        }

    def _resolve(self, name: str, seen: frozenset[str] = frozenset()) -> Iterator[str]:
        """Yield the files that an imported name leads to."""
        if name == OTHER_NAME or name.startswith(OTHER_NAME + "."):
            name = PACKAGE + name.removeprefix(OTHER_NAME)
        module, rest = self._module_of(name)
        if module is None:
            return
        parents = module.split(".")
        for end in range(1, len(parents)):
            if parent := self._modules.get(".".join(parents[:end])):
                yield parent + ALONE
        path = self._modules[module]
        if not rest or not path.endswith("/__init__.py"):
            yield path
            return
        yield path + ALONE
        homes = [
            each.name
            for each in self._read(path).imports
            if each.name.rpartition(".")[2] == rest and each.name not in seen
        ]
        if not homes:
            yield path  # defined there, or found there by a way that only running it tells
        for home in homes:
            yield from self._resolve(home, seen | {name, home})

    def _neighbours(self, path: str, name: str) -> Iterator[str]:
        """Yield files that are found because their folder is on the path: that of a test, or of the programs that it runs."""
        first = name.partition(".")[0]
        if first in _TOP:
            return
        found = [
            each
            for each in self._by_name.get(f"{first}.py", ())
            if each.partition("/")[0] == path.partition("/")[0]
            and (PurePosixPath(each).parent / "__init__.py").as_posix() not in self.files
        ]
        here = PurePosixPath(path).with_name(f"{first}.py").as_posix()
        yield from [here] if here in found else found

    def _module_of(self, name: str) -> tuple[str | None, str]:
        """Return the module of a dotted name, and the first part of the rest."""
        parts = name.split(".")
        for end in range(len(parts), 0, -1):
            module = ".".join(parts[:end])
            if module in self._modules:
                return module, parts[end] if end < len(parts) else ""
        return None, ""

    def _named_modules(self, path: str, facts: Facts) -> Iterator[str]:
        """Yield modules that strings name: addresses, programs for `python -m`, imports of programs in the text."""
        is_test = path.startswith("tests/")
        for text in facts.strings:
            if found := _ADDRESS.fullmatch(text):
                name, is_prefix = found[1], found[2]
                if name in {PACKAGE, OTHER_NAME} and not is_prefix:
                    if is_test:  # the command
                        yield from self._resolve(f"{PACKAGE}.__main__")
                elif not is_prefix:
                    yield from self._resolve(name)
                elif is_test:
                    yield from self._below(name)
            elif is_test and "import" in text:
                for source, names, whole in _IMPORT_LINE.findall(text):
                    for each in names.split(",") if names.strip() else [""]:
                        yield from self._resolve(f"{source or whole}.{each.strip()}".rstrip("."))

    def _below(self, name: str) -> Iterator[str]:
        """Yield the modules of a package, for names that are put together when the program runs."""
        for module, path in self._modules.items():
            if module.startswith(name + "."):
                yield path

    def _named_files(self, path: str, facts: Facts) -> Iterator[str]:
        """Yield files that strings name: by their name, or by that of their folder."""
        here = PurePosixPath(path).parent
        is_product = path.startswith(f"{PACKAGE}/")
        folders: list[str] = []
        named: set[str] = set()
        for text in facts.strings:
            if len(text) > 200 or "\n" in text:
                continue
            for name in _FILE_NAME.findall(text):
                named.update(
                    each
                    for each in self._closest(self._by_name.get(name, ()), here)
                    if not _is_test(each)
                )
            named.update(
                tool for tool in (f"tools/{text}.py", f"tools/{text}.sh") if tool in self.files
            )
            if re.fullmatch(r"[\w/-]+", text):
                folders += [text, (here / text).as_posix()]
        if is_product:  # it is installed without the rest of the repository
            named = {each for each in named if each.startswith(f"{PACKAGE}/")}
            folders = [each for each in folders if each.startswith(f"{here}/")]
        elif any("*.py" in text for text in facts.strings):
            yield from (each + ALONE for each in self.files if each.startswith(f"{PACKAGE}/"))
        yield from named
        for folder in folders:
            inside = self._folders.get(folder, ())
            # A folder that stands before the name of a file is only the way there.
            if folder not in _EVERYWHERE and not any(each in named for each in inside):
                yield from (
                    each
                    for each in inside
                    if not _is_test(each) and not (is_product and each.endswith(".py"))
                )

    @staticmethod
    def _closest(paths: Iterable[str], here: PurePosixPath) -> list[str]:
        """Of files with the same name, return those with the longest way in common with a folder; modules are imported."""
        others = [
            path for path in paths if not path.startswith(f"{PACKAGE}/") or path[-3:] != ".py"
        ]
        if len(others) < 2:
            return others
        own = [path for path in others if PurePosixPath(path).is_relative_to(here)]
        return own or others

    @cached_property
    def _folders(self) -> dict[str, list[str]]:
        """Return the files below each folder; packages are imported instead."""
        found: dict[str, list[str]] = defaultdict(list)
        for path in self.files:
            for parent in PurePosixPath(path).parents:
                found[parent.as_posix()].append(path)
        return found

    def _fixture_targets(self, path: str, facts: Facts) -> Iterator[str]:
        """Yield the conftests that apply to a test, and what the fixtures that it uses import."""
        wanted = set(facts.arguments | facts.strings)
        for fixture in facts.fixtures.values():
            wanted |= fixture.arguments
        for parent in PurePosixPath(
            path
        ).parents:  # from the innermost: fixtures use those further out
            conftest = (parent / "conftest.py").as_posix()
            package = (parent / "__init__.py").as_posix()
            if package in self.files:
                yield package + ALONE
            if conftest == path or conftest not in self.files:
                continue
            yield conftest + ALONE
            fixtures = self._read(conftest).fixtures
            used = {name for name, each in fixtures.items() if each.automatic or name in wanted}
            while more := {
                name
                for each in used
                for name in fixtures[each].arguments
                if name in fixtures and name not in used
            }:
                used |= more
            for name in used:
                wanted |= fixtures[name].arguments
                for imported in fixtures[name].imports:
                    yield from self._resolve(imported)


#: Folders whose names are words that stand in strings for other reasons.
_EVERYWHERE = frozenset(
    {".", "tests", PACKAGE, "tools", *(f"tests/{each}" for each in ("unit", "jobs"))}
)


def _is_test(path: str) -> bool:
    name = PurePosixPath(path).name
    return path.startswith("tests/") and name.startswith("test_") and name.endswith(".py")


def _module_name(path: str) -> str:
    """Return the name that a file is imported by.

    >>> _module_name("penstock/cep/__init__.py"), _module_name("penstock/errors.py")
    ('penstock.cep', 'penstock.errors')
    """
    parts = PurePosixPath(path).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts)


def _add(targets: dict[str, str], found: Iterable[str], why: str) -> None:
    for each in found:
        targets.setdefault(each, why)
