"""Examples of each command, shown by its help."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

EXAMPLES: dict[str, tuple[str, ...]] = {
    "run": (
        "penstock run -p 4 -D execution.checkpointing.interval=10s job.py --input in.csv",
        "penstock run -s /data/savepoints/savepoint-0d4c5f-3b9d1c07e2aa job.py",
        "penstock run --session=localhost:8081 job.py",
        "penstock run --no-spark job.py",
    ),
    "plan": ("penstock plan job.py", "penstock plan -f svg -o plan.svg job.py"),
    "config": ("penstock config --all", "penstock config -D parallelism.default=4 job.py"),
    "sql": (
        "penstock sql",
        "penstock sql -e \"SELECT a, COUNT(*) FROM (VALUES ('x'), ('y'), ('x')) AS t(a) GROUP BY a\" --no-spark",
        "penstock sql -i tables.sql -f job.sql -D parallelism.default=4",
    ),
    "init": ("penstock init my-project", "penstock init fraud --template cep"),
    "info": ("penstock info --json",),
    "version": ("penstock version",),
    "completion": (
        'eval "$(penstock completion bash)"   # in ~/.bashrc',
        "penstock completion fish > ~/.config/fish/completions/penstock.fish",
    ),
    "list": ("penstock list", "penstock list -a --json"),
    "job": ("penstock job clicks",),
    "savepoint": (
        "penstock savepoint clicks /data/savepoints",
        "penstock savepoint --dispose /data/savepoints/savepoint-0d4c5f-3b9d1c07e2aa",
    ),
    "stop": ("penstock stop -p /data/savepoints clicks", "penstock stop --drain clicks"),
    "cancel": ("penstock cancel clicks",),
    "rescale": ("penstock rescale clicks 8", "penstock rescale clicks --vertex counts=16"),
    "page": ("penstock page clicks --open",),
    "doctor": ("penstock doctor clicks", "penstock doctor clicks --json --fail-on warning"),
    "logs": ("penstock logs clicks -f",),
    "session start": (
        "penstock session start -m spark://host:7077",
        "penstock session start --no-spark -D taskmanager.numberOfTaskSlots=4",
    ),
    "session stop": ("penstock session stop",),
    "session status": ("penstock session status --json",),
    "kubernetes upgrade": (
        "penstock kubernetes upgrade fraud --image registry/fraud:2 -m fraud.example:8081",
    ),
    "state ls": ("penstock state ls /data/checkpoints/0d4c5f17a0f34b1ca58c1bd1e6b7f2aa",),
    "state show": ("penstock state show clicks counts total --key \"'ann'\"",),
    "state diff": (
        "penstock state diff /data/savepoints/savepoint-1 /data/savepoints/savepoint-2",
    ),
    "replay": (
        "penstock replay /data/checkpoints/0d4c5f17a0f34b1ca58c1bd1e6b7f2aa --pdb",
        "penstock replay clicks --checkpoint 12 --show-output --verify",
    ),
}


def leaves(
    parser: argparse.ArgumentParser, prefix: str = ""
) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """Yield all commands that take arguments of their own, such as `run` and `state ls`, with their parsers."""
    for action in parser._actions:  # noqa: SLF001 - argparse offers no other access to its actions
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            for name, child in action.choices.items():
                nested = list(leaves(child, f"{prefix}{name} "))
                yield from nested or [(f"{prefix}{name}", child)]


def add_examples(parser: argparse.ArgumentParser) -> None:
    """Add the examples of every command to the end of its help."""
    for name, command in leaves(parser):
        if name in EXAMPLES:
            shown = "\n".join(f"  {line}" for line in EXAMPLES[name])
            before = f"{command.epilog.rstrip()}\n\n" if command.epilog else ""
            if command.formatter_class is argparse.HelpFormatter and before:
                before = _filled(before)
            command.epilog = f"{before}examples:\n{shown}\n"
            command.formatter_class = argparse.RawDescriptionHelpFormatter


def _filled(text: str) -> str:
    import textwrap

    return textwrap.fill(" ".join(text.split()), 100) + "\n\n"
