"""`penstock init`: a small project to start from, with a job, its test and data to try it with."""

from __future__ import annotations

import argparse
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import TYPE_CHECKING, Final

import penstock
from penstock.cli.output import print_json, print_line
from penstock.cli.program_options import add_json
from penstock.dependencies.distribution import DISTRIBUTION
from penstock.errors import ArgumentError, PenstockError

if TYPE_CHECKING:
    from penstock.cli.jobs import Commands

# Not modules of this package: checks of source code leave them alone until they are written into a project.
_SUFFIX: Final = ".template"
_NAME: Final = re.compile(r"[a-z0-9](?:[a-z0-9._-]*[a-z0-9])?", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Template:
    """A project to start from: what it shows, the extra that it needs, and the commands of its README."""

    text: str
    try_it: str
    run: str
    files: tuple[tuple[str, str], ...]
    extra: str = ""
    more: str = ""


_JOB = ("job.py", "the job")
_TEST = ("test_job.py", "its test")

TEMPLATES: Final[dict[str, Template]] = {
    "datastream": Template(
        "Reports sensors whose temperature rises, with keyed state.",
        "penstock run --no-spark job.py",
        "penstock run job.py --input data/readings.jsonl",
        (_JOB, _TEST, ("data/readings.jsonl", "readings to try it with")),
    ),
    "kafka": Template(
        "Sums orders per customer and minute, from Kafka to Kafka, exactly once.",
        "penstock run --no-spark job.py --sample data/orders.jsonl",
        "penstock run job.py --brokers localhost:9092",
        (_JOB, _TEST, ("data/orders.jsonl", "messages to try it with, in place of a broker")),
        extra="kafka",
        more="\nThe job reads the topic `orders` and writes the topic `totals`. A consumer of `totals` should set "
        "`isolation.level=read_committed`:\nit then sees each total exactly once.\n",
    ),
    "sql": Template(
        "Sums orders per customer and minute, in SQL.",
        "penstock run --no-spark job.sql",
        "penstock run job.sql",
        (
            ("job.sql", "tables, a view and the INSERT that is the job"),
            ("test_job.py", "the test of the view"),
            ("data/orders.csv", "orders to try it with"),
        ),
        more="\n`penstock sql --no-spark` is a prompt for statements. To read from Kafka or a database, change the options after "
        "`WITH` in `job.sql`.\n",
    ),
    "cep": Template(
        "Finds cards that are tested with small payments before a large one, by a pattern.",
        "penstock run --no-spark job.py",
        "penstock run job.py --input data/payments.jsonl",
        (_JOB, _TEST, ("data/payments.jsonl", "payments to try it with")),
    ),
    "pyflink": Template(
        "Counts words, in a program that imports pyflink.",
        "penstock run --no-spark job.py",
        "penstock run job.py --input data/lines.txt",
        (
            _JOB,
            _TEST,
            ("conftest.py", "lets `import pyflink` mean Penstock in tests"),
            ("data/lines.txt", "text to try it with"),
        ),
    ),
}
DEFAULT: Final = "datastream"


def add_commands(commands: Commands) -> None:
    """Add `init` to the command line."""
    parser = commands.add_parser(
        "init",
        help="create a project: a job, its test, data to try it with",
        description="Create a project in a new or empty directory: a job, its test, data to try it with, and a README.",
    )
    parser.set_defaults(call=_init)
    parser.add_argument(
        "directory", metavar="DIRECTORY", help="where; its name becomes the name of the project"
    )
    parser.add_argument(
        "--template",
        choices=TEMPLATES,
        default=DEFAULT,
        help=f"what the job shows: {', '.join(TEMPLATES)} (default: {DEFAULT})",
    )
    add_json(parser)


def _init(given: argparse.Namespace) -> int:
    directory = Path(given.directory)
    written = create_project(directory, given.template)
    steps = _next_steps(TEMPLATES[given.template])
    if given.json:
        facts = {"directory": str(directory.absolute()), "template": given.template}
        print_json({**facts, "files": written, "next": steps})
        return 0
    print_line(f"created {directory} from template {given.template}: {', '.join(written)}")
    print_line("next:")
    for step in (f"cd {directory}", *steps):
        print_line(f"  {step}")
    return 0


def _next_steps(template: Template) -> list[str]:
    """Return the commands that test and try a project: with uv, which installs what they need, if it is there."""
    if shutil.which("uv") is not None:
        return ["uv run pytest", f"uv run {template.try_it}"]
    return [f"pip install '{_requirement(template)}' pytest", "pytest", template.try_it]


def create_project(directory: Path, template: str) -> list[str]:
    """Write a template's files into a directory that is new or empty; return their paths in it."""
    name = directory.absolute().name
    if _NAME.fullmatch(name) is None:
        raise ArgumentError(
            f"'{name}' cannot be the name of a project",
            detail="a name has letters, digits, '-', '_' and '.', and begins and ends with a letter or digit",
            hint="name another directory: penstock init my-project",
        )
    if directory.exists() and not (directory.is_dir() and not any(directory.iterdir())):
        raise PenstockError(
            f"{directory} exists and is not an empty directory",
            detail="no file was written",
            hint="name a directory that does not exist yet",
        )
    values = _values(name, TEMPLATES[template])
    files = dict(sorted(_files(template)))
    for path, text in files.items():
        for key, value in values.items():
            text = text.replace(f"{{{{{key}}}}}", value)  # noqa: PLW2901
        target = directory / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
    return list(files)


def _values(name: str, template: Template) -> dict[str, str]:
    return {
        "name": name,
        "description": template.text,
        "distribution": DISTRIBUTION,
        "requirement": _requirement(template),
        "files": "\n".join(f"| `{path}` | {text} |" for path, text in template.files),
        "try": template.try_it,
        "run": template.run,
        "more": template.more,
    }


def _requirement(template: Template) -> str:
    extra = f"[{template.extra}]" if template.extra else ""
    return f"{DISTRIBUTION}{extra}>={penstock.__version__}"


def _files(template: str) -> Iterator[tuple[str, str]]:
    """Yield the path in a project and the text of each file of a template."""
    root = resources.files("penstock.cli") / "templates"
    for folder in ("common", template):
        yield from _below(root / folder, "")


def _below(folder: Traversable, prefix: str) -> Iterator[tuple[str, str]]:
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from _below(entry, f"{prefix}{entry.name}/")
        elif entry.name.endswith(_SUFFIX):
            yield f"{prefix}{entry.name.removesuffix(_SUFFIX)}", entry.read_text(encoding="utf-8")
