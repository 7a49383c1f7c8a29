"""Finds code that nothing uses: names of the engine that only tests mention, and names of tests that nothing mentions.

`python tools/dead_code.py`, a part of `make check`. What is found is deleted, or its name is listed below with the reason why
it stays. Names that users of the API call need no place in the list: they are known by the modules that define them.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable
from pathlib import Path

from vulture import Vulture
from vulture.core import Item

ROOT = Path(__file__).resolve().parents[1]
ENGINE = ["penstock", "benchmarks", "examples", "tools"]
SUSPICION = 60  # what vulture is sure of in per cent; lower than this it finds nothing

# Public names of these are for users' programs and tests. PyFlink has most of them, so they need not be called here.
API = (
    "penstock/cep/",
    "penstock/common/",
    "penstock/options/config_options.py",
    "penstock/options/configuration.py",
    "penstock/time/durations.py",
    "penstock/connectors/",
    "penstock/datastream/",
    "penstock/formats/",
    "penstock/sql/",
    "penstock/state/",
    "penstock/table/",
    "penstock/testing/",
    "penstock/windowing/",
    "penstock/pyflink_compat.py",
    "penstock/state_descriptors/descriptors.py",
    "penstock/state_descriptors/ttl.py",
    "penstock/runtime/metrics.py",
    "penstock/runtime/operators/runtime_context.py",
)

ALLOWED = {
    "called by io": ["readable", "readall", "writable"],
    "called by pickle": ["persistent_id", "persistent_load"],
    "read by logging": ["lastResort"],
    "called by the import system": ["create_module", "exec_module"],
    "called by Python": ["__call__", "__dir__", "__signature__"],
    "read and called by http.server and socketserver": [
        "address_family",
        "block_on_close",
        "daemon_threads",
        "do_DELETE",
        "do_GET",
        "do_PATCH",
        "do_PUT",
        "handle_error",
        "log_message",
        "protocol_version",
        "wbufsize",
    ],
    "options of RocksDB that are set and never read": ["disable_wal", "size_ratio"],
    "attributes of other libraries' objects": ["caption", "comm_subexpr_elim", "tempdir"],
    "called by prompt_toolkit": ["get_completions", "lex_document"],
    "read by starlette": ["redirect_slashes", "regex"],
    "called by MkDocs": ["on_config", "on_files", "on_nav", "on_page_markdown", "on_post_build"],
    "found and called by Griffe": ["DoctestFences", "on_object"],
    "called by html.parser": ["handle_starttag"],
    "called by uvicorn": ["main_loop", "pause_reading", "resume_reading", "send_400_response"],
    "called by pytest": [
        "_split_scope",
        "pytest_addoption",
        "pytest_collection",
        "pytest_collection_modifyitems",
        "pytest_deselected",
        "pytest_runtest_logreport",
        "pytest_runtestloop",
        "pytest_terminal_summary",
        "pytest_xdist_make_scheduler",
        "pytestmark",
    ],
    "read by Python": ["dont_write_bytecode"],
    "called by IPython": [
        "_repr_html_",
        "flink_cluster",
        "load_ipython_extension",
        "unload_ipython_extension",
    ],
    "read by psycopg": ["nonblocking"],
    "read by shlex": ["commenters", "whitespace_split"],
    "found by name": ["run_reopened"],
    "used by snippets that are text": ["KeyedNothing", "backend_with_paths", "run_without_sink"],
    "asked by tests, which could not see it otherwise": ["completed_checkpoint_ids"],
    "read by fsspec": ["pseudo_dirs", "use_listings_cache"],
    "called by prompt-toolkit": ["_enter"],
    "called by name, as Spark does": ["streamReader", "streamWriter", "simpleStreamReader"],
    "called by examples in docstrings": ["show_rule"],
    "called by the libraries that benchmarks compare with": [
        "build_part",
        "compute_result",
        "from_row",
        "list_parts",
        "next_batch",
    ],
    "one of several, of which tests use another": ["BLUE"],
    "methods of functions and readers that user code has, and these programs too": [
        "mark_active",
        "get_runtime_context",
    ],
    "user code may clear, read and write all that PyFlink's contexts have": [
        "get_left_timestamp",
        "get_pattern_id",
        "get_right_timestamp",
        "get_timestamp",
    ],
}


def main() -> int:
    """Print what is unused and return the exit code."""
    allowed = {name for names in ALLOWED.values() for name in names}
    engine = _scan(ENGINE)
    api = {item.name for item in _definitions(engine) if _is_api(item)}
    found = [
        item
        for item in _unused(engine)
        if _place(item).startswith("penstock/") and item.name not in api
    ]
    encoded = _encoded_fields()
    found = [item for item in found if (_place(item), item.first_lineno) not in encoded]
    everything = _scan([*ENGINE, "tests"])
    found += [item for item in _unused(everything) if not _place(item).startswith("penstock/")]
    listed = {item.name for item in [*_unused(engine), *_unused(everything)]}
    found = [item for item in found if item.name not in allowed]
    for item in sorted(found, key=lambda item: (_place(item), item.first_lineno)):
        sys.stdout.write(
            f"{_place(item)}:{item.first_lineno}: {item.typ} '{item.name}' is unused\n"
        )
    for name in sorted(allowed - listed):
        sys.stdout.write(f"tools/dead_code.py: '{name}' is allowed and no longer found\n")
    return 1 if found or allowed - listed else 0


def _scan(folders: Iterable[str]) -> Vulture:
    # Specs name their operators as text; programs of the zoo and rules for connectors are found by their decorator, failing jobs by
    # their name.
    vulture = Vulture(
        ignore_names=["*Operator", "in_a_*", "in_an_*"],
        ignore_decorators=["@pytest.fixture*", "@program*", "@*_RULES.rule*", "@compiles*"],
    )
    # Environments that benchmarks run others in are in hidden folders.
    vulture.scavenge([str(ROOT / folder) for folder in folders], exclude=["*/benchmarks/.*"])
    return vulture


def _unused(vulture: Vulture) -> list[Item]:
    unused: list[Item] = vulture.get_unused_code(min_confidence=SUSPICION)
    return [item for item in unused if not _is_argument(item)]


def _is_argument(item: Item) -> bool:
    """Whether it is an argument, of which vulture is always sure: ruff looks after those, and tests name fixtures."""
    return bool(item.typ == "variable" and item.confidence == 100)


def _definitions(vulture: Vulture) -> list[Item]:
    return [
        *vulture.defined_attrs,
        *vulture.defined_classes,
        *vulture.defined_funcs,
        *vulture.defined_methods,
        *vulture.defined_props,
        *vulture.defined_vars,
    ]


def _is_api(item: Item) -> bool:
    return _place(item).startswith(API) and not item.name.startswith("_")


def _encoded_fields() -> set[tuple[str, int]]:
    """Return the files and lines of fields of msgspec structs: JSON is made of them, so no code need read them."""
    classes = [
        (path.relative_to(ROOT), node)
        for path in (ROOT / "penstock").rglob("*.py")
        if "msgspec" in (text := path.read_text())
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.ClassDef)
    ]
    structs = {"Struct"}
    # Structs extend structs.
    while (
        more := {node.name for _, node in classes if structs & set(map(ast.unparse, node.bases))}
        - structs
    ):
        structs |= more
    return {
        (str(path), field.lineno)
        for path, node in classes
        if node.name in structs
        for field in node.body
        if isinstance(field, ast.AnnAssign)
    }


def _place(item: Item) -> str:
    return str(Path(item.filename).resolve().relative_to(ROOT))


if __name__ == "__main__":
    sys.exit(main())
