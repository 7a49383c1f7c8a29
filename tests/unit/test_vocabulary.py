"""Words that do not belong in this project, and the better ones; the glossary defines the terms."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

# A pattern, and what to write instead. Short on purpose: words that were common here, sound translated or hide a term.
FORBIDDEN = {
    # "'X' is no time zone" makes the reader guess what is wrong.
    r"(?<!there )\b(?:is|are|was|were) (?-i:no) (?!longer\b|more than\b|less than\b|worse\b|better\b|different\b|faster\b)[a-z]": "say "
    "what it is: 'unknown time zone', 'not a directory', 'has no key'",
    # A sentence with an anonymous actor does not say which component acts.
    r"\bwhoever\b": "name the component or the user",
    r"(?!(?<=['\"])nobody['\"])\b(?:some|no)body\b": "name the component or the user",
    # Who tells whom what? A component reports, a method returns, a message says.
    r"(?<!\\)\btold\b(?! (?:not )?to\b| apart\b| otherwise\b)": "reported, sent, returned, notified",
    # Words of another age.
    r"\banew\b": "again",
    r"\bmend(?:s|ed|ing)?\b": "fix",
    r"\bhasten(?:s|ed)?\b|\bhurry\b": "expedite",
    # Failures without a cause.
    r"\bcannot be had\b": "is not available",
    r"\bhad no success\b": "failed after N attempts",
    r"\bnot there yet\b": "is not supported yet",
    r"\bwhat there is\b": "name the thing: the partial results, the existing state",
    r"\bruns? (?:here )?no more\b": "was suspended, has ended",
    r"\bput(?:s|ting)? aside\b": "quarantine, route to a side output",
    r"\bexcludes? each other\b": "are mutually exclusive",
    r"\bin vain\b": "without effect",
    r"\bin the same breath\b": "atomically",
    r"\bwhat becomes of\b": "what happens to",
    # Terms of Flink that had other names here.
    r"\bdealt out\b": "redistributed, assigned",
    r"\btasks?_stay\b|\b(?:tasks?|stages?) that stays?\b|\bwhere records flow\b": "pipelined mode",
    r"\bLiveTask\b|\blive_task\b|\bflowing_time\b|\bSideBySide\b|\bwants_stages\b": "names of pipelined mode begin with 'pipelined'",
    r"\bepochs[ _]mode\b": "epoch mode",
    r"\bStartEpoch\b|\bEpochCompleted\b|\bAbortEpoch\b|\bEpochContext\b|\bEpochFailed\w*": "checkpoint, outside of epoch mode",
    r"\bway of running\b|\bways of running\b": "execution mode",
    # Metaphors that were class names.
    r"\b(?-i:Turnstile|Doorkeeper|Flights|Patient)\b": "RequestThrottle, ZapAuthenticator, InFlightRequests, DiagnosableJob",
}
PATTERNS = [(re.compile(pattern, re.IGNORECASE), better) for pattern, better in FORBIDDEN.items()]
ANY = re.compile("|".join(FORBIDDEN), re.IGNORECASE)
TREES = {
    "penstock": ("*.py", "*.js", "*.html"),
    "docs": ("*.md",),
    "tests": ("*.py", "*.js"),
    "examples": ("*.py", "*.md", "*.sql"),
    "benchmarks": ("*.py",),
    "tools": ("*.py", "*.sh"),
}
PAGES = ("README.md", "CONTRIBUTING.md")

# Modules with the word epoch in names, and what it means there. Everywhere else it is a checkpoint.
EPOCHS = {
    "epoch mode": (
        "options",
        "client",
        "jobmanager/diagnosis/diagnosable_job.py",
        "jobmanager/job.py",
        "jobmanager/job_master",
        "jobmanager/job_creation.py",
        "jobmanager/running/cluster.py",
        "jobmanager/running/epochs",
        "jobmanager/running/thread_cluster.py",
        "jobmanager/modes.py",
        "replay",
        "runtime/operators/connectors/sink.py",
        "runtime/operators/connectors/source.py",
        "runtime/operators/connectors/source_modes.py",
        "runtime/operators/connectors/split_schedulers.py",
        "runtime/operators/connectors/timestamps.py",
        "runtime/operators/functions/async_wait.py",
        "runtime/task",
        "spark",
    ),
    "1 January 1970": (
        "connectors/filesystem/table",
        "formats",
        "runtime/columnar",
        "savepoint/scalars.py",
        "spark/dependencies.py",
        "sql",
        "table",
        "time",
    ),
    "1 January 2000, in PostgreSQL's protocol": ("connectors/postgres_cdc",),
    "the number that fences a producer of Kafka": ("connectors/kafka",),
}
# PyFlink has both: one of the DataStream API, one of the Table API.
SHARED_CLASS_NAMES = {"AggregateFunction"}


def found_in(text: str) -> Iterator[tuple[int, str, str]]:
    """Yield the line, the word and the better word for each forbidden word of a text."""
    for number, line in enumerate(text.splitlines(), 1):
        plain = line.replace("_", " ")  # of names: test_what_there_is_not
        if ANY.search(line) or ANY.search(plain):
            for pattern, better in PATTERNS:
                if match := pattern.search(line) or pattern.search(plain):
                    yield number, match[0], better


def pages_and_modules() -> Iterator[Path]:
    for tree, names in TREES.items():
        for name in names:
            yield from (ROOT / tree).rglob(name)
    yield from (ROOT / page for page in PAGES)


def modules() -> Iterator[tuple[str, str]]:
    """Yield the path of each module below penstock/, and its text."""
    for path in sorted((ROOT / "penstock").rglob("*.py")):
        yield path.relative_to(ROOT / "penstock").as_posix(), path.read_text(encoding="utf-8")


def names_of(text: str) -> set[str]:
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return {token.string for token in tokens if token.type == tokenize.NAME}


def test_no_file_has_forbidden_words() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}: {word!r}; better: {better}"
        for path in sorted(set(pages_and_modules()) - {Path(__file__)})
        for line, word, better in found_in(path.read_text(encoding="utf-8"))
    ]
    assert not found, f"{len(found)} words:\n" + "\n".join(found)


@pytest.mark.parametrize(
    "sample",
    [
        "raise ConfigurationError(f\"'{name}' is no time zone\")",
        "# the plan is made anew",
        "def test_what_there_is_not_is_refused():",
        "Whoever restores commits first",
        "nobody waits",
        "tasks_stay: bool",
        "tasks that stay",
        "mend the record before the sink",
        "splits are dealt out",
        "each slot is told",
        "class EpochContext:",
        "the function F is not there yet",
    ],
)
def test_a_forbidden_word_is_found(sample: str) -> None:
    assert [line for line, _, _ in found_in(f"x = 1\n{sample}\n")] == [2]


@pytest.mark.parametrize(
    "sample",
    ["it is no longer needed", "there is no key", "the amendment", "is no more than a number"],
)
def test_plain_words_are_not_found(sample: str) -> None:
    assert list(found_in(sample)) == []


def test_epoch_is_a_word_of_epoch_mode() -> None:
    allowed = tuple(prefix for prefixes in EPOCHS.values() for prefix in prefixes)
    found = {
        name: sorted(wrong)
        for name, text in modules()
        if re.search("epoch", text, re.IGNORECASE)
        and not name.startswith(allowed)
        and (wrong := {each for each in names_of(text) if "epoch" in each.lower()})
    }
    assert found == {}, "checkpoint is the word outside of epoch mode"


def test_no_two_public_classes_have_the_same_name() -> None:
    places = defaultdict(list)
    for name, text in modules():
        for node in ast.parse(text).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(name)
    shared = {name: where for name, where in places.items() if len(where) > 1}
    assert {name: shared[name] for name in shared.keys() - SHARED_CLASS_NAMES} == {}
