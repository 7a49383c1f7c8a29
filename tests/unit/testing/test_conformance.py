"""The conformance kit: for each rule a connector that breaks it, and is caught; one that breaks none passes all."""

from __future__ import annotations

import subprocess
import sys
import unittest

import pytest

from penstock.testing import ConformanceError, sink_rules, source_rules
from penstock.testing.conformance import source_jobs
from tests.builders.flawed_connectors import FlawedSinkSetup, FlawedSourceSetup

# (the flaw, words of the rule, whether the source has an end)
SOURCE_FLAWS = [
    ("takes any argument", "wrong arguments", True),
    ("positions that cannot be pickled", "can be pickled", True),
    ("one id for all splits", "each split is discovered once", True),
    ("finds splits again", "each split is discovered once", False),
    ("forgets what it found", "each split is discovered once", True),
    ("goes back by one", "reading from any position", True),
    ("goes on by one", "reading from any position", True),
    ("positions that do not ascend", "ordered positions", True),
    ("waits", "with NonBlockingReadLimits", False),
    ("does not end", "with NonBlockingReadLimits", False),
    ("waits in on_checkpoint", "checkpoint notifications", True),
    ("lets go of too much", "checkpoint notifications", True),
    ("cannot be left", "left in the middle", True),
    ("cuts long records", "megabyte", True),
    ("says that there is nothing", "a job reads each record once (epochs)", False),
    ("fails without records", "without records yet", False),
    ("plans again when rescaled", "rescaled", False),
    ("finds what is left to find", "whatever call fails", True),
    ("remembers where it is by itself", "whatever call fails", True),
    ("remembers where it is by itself", "a driver that is killed", True),
    ("is always ready", "idle", False),
    ("sleeps for ever", "idle", False),
    ("names no origin", "a malformed record", True),
    ("leaves out what it cannot read", "a malformed record", True),
]

SINK_FLAWS = [
    ("takes any argument", "wrong arguments"),
    ("shows what is written", "nothing before the commit"),
    ("shows what is prepared", "nothing before the commit"),
    ("committables that cannot be pickled", "nothing before the commit"),
    ("committables that are not a list", "nothing before the commit"),
    ("commits again", "a repeated commit"),
    ("cannot commit again", "a repeated commit"),
    ("commits once in its life", "the same committer"),
    ("commits its own epoch only", "aborted checkpoint"),
    ("close shows what is open", "close neither"),
    ("close takes back what is prepared", "close neither"),
    ("names output by subtask and epoch", "an aborted attempt"),
    ("cleans up nothing", "clean_up"),
    ("cleans up what is named", "clean_up"),
    ("cleans up other jobs", "clean_up"),
    ("fails without committables", "without committables"),
    ("cannot be closed unused", "never got a record"),
    ("takes no state", "restores the state"),
    ("is due for ever", "requests a wakeup"),
    ("refuses big records", "megabyte"),
    ("fails with metrics", "a job writes each record once"),
    ("knows two subtasks", "rescaled"),
    ("states that cannot be merged", "rescaled"),
    ("keeps a part for the next epoch", "whatever call fails"),
    ("commits again", "whatever call fails"),
    ("prepares in memory", "a driver that is killed"),
    ("leaves out what it cannot write", "cannot be written"),
]


def named(rules, words):
    """The rules that have these words, one of both modes."""
    found = [rule for rule in rules if words in rule.sentence]
    assert found, words
    return found[0]


@pytest.mark.parametrize(("flaw", "words", "bounded"), SOURCE_FLAWS)
def test_a_source_that_breaks_a_rule_is_caught(tmp_path, monkeypatch, flaw, words, bounded):
    rule = named(source_rules(), words)
    if flaw == "is always ready":
        # Where others have the processors, it is not read often: what its reader says is what counts.
        monkeypatch.setattr(source_jobs, "_IDLE_S", 240.0)
        monkeypatch.setattr(source_jobs, "_MOST_READS_A_SECOND", 1e9)
    setup = FlawedSourceSetup(tmp_path / "in", flaw, bounded=bounded)
    with pytest.raises(ConformanceError) as caught:
        rule.check(setup, tmp_path)
    expect_a_story(str(caught.value), rule)


@pytest.mark.parametrize(("flaw", "words"), SINK_FLAWS)
def test_a_sink_that_breaks_a_rule_is_caught(tmp_path, flaw, words):
    rule = named(sink_rules(), words)
    with pytest.raises(ConformanceError) as caught:
        rule.check(FlawedSinkSetup(tmp_path / "out", flaw), tmp_path)
    expect_a_story(str(caught.value), rule)


def expect_a_story(text, rule):
    first, second, third = text.split("\n", 2)
    assert first == f"rule: {rule.sentence}"
    assert second.startswith("step: ")
    assert third.startswith("found: ")


def quick(rules):
    """All but those that start processes; tests/jobs/connectors has them, for connectors that keep them."""
    return [rule for rule in rules if "killed" not in rule.sentence]


@pytest.mark.parametrize("bounded", [True, False], ids=["with an end", "without an end"])
@pytest.mark.parametrize("rule", quick(source_rules()), ids=str)
def test_a_source_without_a_flaw_keeps_every_rule(tmp_path, rule, bounded):
    setup = FlawedSourceSetup(tmp_path / "in", None, bounded=bounded)
    setup.wait_s = 240.0
    rule.check(setup, tmp_path)


@pytest.mark.parametrize("rule", quick(sink_rules()), ids=str)
def test_a_sink_without_a_flaw_keeps_every_rule(tmp_path, rule):
    setup = FlawedSinkSetup(tmp_path / "out", None)
    setup.wait_s = 240.0
    rule.check(setup, tmp_path)


def test_every_rule_is_broken_by_some_connector():
    def unbroken(rules, flaws):
        sentences = {rule.sentence.rpartition(" (")[0] or rule.sentence for rule in rules}
        return [
            text for text in sentences if not any(words.split(" (")[0] in text for words in flaws)
        ]

    assert unbroken(source_rules(), [words for _, words, _ in SOURCE_FLAWS]) == []
    assert unbroken(sink_rules(), [words for _, words in SINK_FLAWS]) == []


def test_the_kit_is_imported_without_pytest():
    code = "import sys, penstock.testing; print('pytest' in sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "False"


def test_a_rule_that_says_nothing_about_a_connector_is_skipped(tmp_path):
    setup = FlawedSourceSetup(tmp_path / "in", None)
    with pytest.raises(unittest.SkipTest, match="never idle"):
        named(source_rules(), "idle").check(setup, tmp_path)
