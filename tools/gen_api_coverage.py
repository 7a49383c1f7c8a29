"""Compares Penstock with the names of PyFlink's API and writes docs/reference/api-coverage.md.

Run it from anywhere: `python tools/gen_api_coverage.py`. The names are in tests/data/pyflink_api.json.
"""

from __future__ import annotations

import importlib
import inspect
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from penstock.errors.not_implemented import NotImplementedType, not_implemented

ROOT = Path(__file__).parents[1]
API = ROOT / "tests" / "data" / "pyflink_api.json"
PAGE = ROOT / "docs" / "reference" / "api-coverage.md"
PACKAGES = ("pyflink.common", "pyflink.datastream", "pyflink.table")

# Helpers of PyFlink's bridge to Java that its modules import; no part of its API.
BRIDGE = {
    "JavaFunctionWrapper",
    "add_jars_to_context_class_loader",
    "get_gateway",
    "get_j_env_configuration",
}
_JAVA = "there is no JVM object"


@dataclass(slots=True)
class Coverage:
    """How one class of PyFlink is covered."""

    module: str
    name: str
    methods: int = 0
    missing: list[str] = field(default_factory=list)  # not there, not even as a marker
    parameters: dict[str, list[str]] = field(default_factory=dict)  # method -> missing parameters
    reasons: dict[str, str] = field(default_factory=dict)  # not implemented, by method
    refused: str | None = None  # why the class as a whole is not implemented

    @property
    def complete(self) -> bool:
        """Whether every name is there or says why it is not."""
        return not self.missing and not self.parameters

    @property
    def features(self) -> dict[str, str]:
        """What is not implemented, without what can only be there with a JVM."""
        return {
            name: reason for name, reason in self.reasons.items() if not reason.startswith(_JAVA)
        }


def compare_all() -> Iterator[Coverage]:
    """Compare every class of every module, also those that a module only imports."""
    api = json.loads(API.read_text())
    for module, members in api.items():
        if module in PACKAGES or module.startswith(tuple(f"{name}." for name in PACKAGES)):
            for name, described in members.items():
                if name not in BRIDGE:
                    yield compare(module, name, described)


def compare(module: str, name: str, described: dict[str, Any]) -> Coverage:
    """Compare one class."""
    found = Coverage(module, name)
    try:
        ours = importlib.import_module(module.replace("pyflink", "penstock", 1))
        kind = getattr(ours, name)
    except (ImportError, AttributeError):
        found.missing.append(name)
        return found
    if isinstance(kind, NotImplementedType):
        found.refused = kind.reason
        return found
    for member in described.get("members", ()):
        if not hasattr(kind, member):
            found.missing.append(member)
    methods = dict(described.get("methods", {}))
    found.methods = len(methods)
    if _is_for_users(described.get("init")):
        methods["__init__"] = described["init"]
    for method, wanted in methods.items():
        _compare_method(found, kind, method, wanted)
    return found


def _is_for_users(parameters: list[str] | None) -> bool:
    """Whether a constructor takes no object of the JVM."""
    return parameters is not None and not any(
        name.startswith(("j_", "java_", "_j_")) or name in {"source", "sink"} for name in parameters
    )


def _compare_method(found: Coverage, kind: Any, method: str, wanted: list[str] | str) -> None:
    member = inspect.getattr_static(kind, method, None)
    if wanted == "property" and isinstance(member, property):
        return
    if isinstance(member, not_implemented):
        found.reasons[method] = member.reason
        return
    call = kind if method == "__init__" else getattr(kind, method, None)
    if not callable(call):
        found.missing.append(method)
        return
    parameters = inspect.signature(call).parameters
    if any(each.kind is inspect.Parameter.VAR_KEYWORD for each in parameters.values()):
        return
    names = [each.split("=")[0].lstrip("*") for each in wanted]
    missing = [each for each in names if each not in parameters and each != "self"]
    if missing:
        found.parameters[method] = missing


def once_each(coverages: list[Coverage]) -> list[Coverage]:
    """Keep each class where it is defined: in the module with the longest name that has it."""
    places: dict[str, Coverage] = {}
    for coverage in coverages:
        known = places.get(coverage.name)
        if known is None or _depth(coverage) > _depth(known):
            places[coverage.name] = coverage
    kept = {id(coverage) for coverage in places.values()}
    return [coverage for coverage in coverages if id(coverage) in kept]


# These modules import classes of others.
_OWN = {"async_data_stream": {"AsyncDataStream"}, "output_tag": {"OutputTag"}}


def _depth(coverage: Coverage) -> int:
    own = _OWN.get(coverage.module.rsplit(".", 1)[-1])
    imported = own is not None and coverage.name not in own
    return -1 if imported else coverage.module.count(".")


def render() -> str:
    """Return the page."""
    coverages = once_each(list(compare_all()))
    methods = sum(coverage.methods for coverage in coverages)
    absent = sum(len(coverage.features) for coverage in coverages)
    refused = [coverage for coverage in coverages if coverage.refused]
    implemented = len(coverages) - len(refused)
    lines = [
        "# API coverage",
        "",
        "Generated by `python tools/gen_api_coverage.py` from a comparison with PyFlink 2.3.0; a test checks that it is up to",
        "date and that every class, method and parameter name of `pyflink.common`, `pyflink.datastream` and `pyflink.table` is",
        "there, or raises an error that says why it is not.",
        "",
        f"**{implemented} of {len(coverages)} classes** are implemented. Of their {methods} methods {absent} are not. Methods",
        "that hand out objects of the JVM (`get_java_function` and the like) cannot be there and are not counted, nor are",
        "constructors that take such objects.",
        "",
        "`penstock run job.py` runs a program that imports these names from `pyflink`.",
        "",
        "## Not implemented",
        "",
        "| What | Why |",
        "|---|---|",
    ]
    for coverage in coverages:
        lines += [
            f"| `{coverage.name}.{method}` | {reason} |"
            for method, reason in coverage.features.items()
        ]
    by_module: dict[tuple[str, str], list[str]] = {}
    for coverage in refused:
        assert coverage.refused is not None
        by_module.setdefault((coverage.module, coverage.refused), []).append(coverage.name)
    lines += [
        f"| `{module}`: {', '.join(f'`{name}`' for name in names)} | {reason} |"
        for (module, reason), names in by_module.items()
    ]
    lines += ["", "## Implemented", "", "| Module | Classes |", "|---|---|"]
    modules: dict[str, list[str]] = {}
    for coverage in coverages:
        if not coverage.refused:
            modules.setdefault(coverage.module, []).append(coverage.name)
    lines += [
        f"| `{module}` | {', '.join(f'`{name}`' for name in sorted(names))} |"
        for module, names in modules.items()
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(render())
