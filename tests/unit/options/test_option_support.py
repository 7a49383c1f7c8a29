"""Every option of Flink 2.3: its class, what is said when it is set, and that its value is checked by its type."""

from __future__ import annotations

import ast
import logging
import re
import subprocess
import sys
from pathlib import Path

import pytest

import penstock
from penstock import options as option_names
from penstock.common import Configuration, Duration
from penstock.errors import ConfigurationError
from penstock.options import OPTIONS, option_checks, support_rules
from penstock.options import table as table_options
from penstock.options.config_options import ConfigOption
from penstock.options.config_values import OptionType
from penstock.options.flink import flink_options
from penstock.options.option_checks import (
    check_setting,
    find_option,
    support_of,
    validate,
)
from penstock.options.support import Support
from tests.builders.cases import check_all

PACKAGE = Path(penstock.__file__).parent
LISTED = flink_options()
ALL = {**LISTED.by_key, **OPTIONS}
# Keys as users write them, of options that have a part that users name
NAMED = {re.sub(r"<[^>]+>", "mine", option.key): option for _, option in LISTED.patterns}
ONE_VALUE = {key for key, option in ALL.items() if len(option.choices) == 1}  # it is what happens
# What names files that must be there
FILES = {"python.files", "python.requirements", "python.archives", "python.logging.level.overrides"}


@pytest.fixture(autouse=True)
def _nothing_was_said(monkeypatch):
    monkeypatch.setattr(option_checks, "_said", set())


def said_about(caplog, key, value):
    """Return the level of each line that setting an option logs."""
    caplog.clear()
    with caplog.at_level(logging.INFO, option_checks.__name__):
        check_setting(key, value)
    assert all(f"'{key}'" in record.getMessage() for record in caplog.records)
    return [record.levelname for record in caplog.records]


def unusual(option: ConfigOption, behaves_as: str | None) -> object:
    """Return a value that asks for something else than what happens anyway."""
    usual = option.default if behaves_as is None else option.convert(behaves_as)
    least = int(max(option.minimum or 0, 0))
    tries = {
        OptionType.STRING: ["one", "two"],
        OptionType.INT: [least + 3, least + 4],
        OptionType.LONG: [least + 3, least + 4],
        OptionType.DOUBLE: [least + 0.25, least + 0.75],
        OptionType.BOOLEAN: ["true", "false"],
        OptionType.DURATION: [f"{least + 3} s", f"{least + 4} s"],
        OptionType.MEMORY: ["3 mb", "5 mb"],
        OptionType.LIST: [";".join(option.choices[:1]) or "one", "two"],
        OptionType.MAP: ["a:b"],
        OptionType.ENUM: list(option.choices),
    }[option.type]
    return next(value for value in tries if option.convert(value) != usual)


def test_every_option_of_flink_is_in_a_class_and_every_rule_is_used():
    keys = [*LISTED.by_key, *NAMED, *OPTIONS]
    check_all({key: key for key in keys}, support_of)
    tables = (
        support_rules.DIFFERENT,
        support_rules.NO_MEANING,
        support_rules.UNSUPPORTED,
        support_rules.REFUSED,
        support_rules.BEHAVES_AS,
    )
    known = [*keys, *(f"{prefix}x" for prefix in support_rules.OPEN_PREFIXES)]
    patterns = [pattern for table in tables for pattern in table]

    def is_used(pattern):
        if pattern.endswith(".*"):
            return any(key.startswith(pattern[:-1]) for key in known)
        return find_option(pattern) is not None

    unused = [pattern for pattern in patterns if not is_used(pattern)]
    assert unused == []
    classes = [pattern for table in tables[:-1] for pattern in table]
    assert sorted(classes) == sorted(set(classes)), "a rule is in two tables"


def test_setting_each_option_logs_the_line_of_its_class(caplog):
    lines = {
        Support.WORKS: [],
        Support.NO_MEANING: [],
        Support.DIFFERENT: ["INFO"],
        Support.UNSUPPORTED: ["WARNING"],
    }

    def check(key):
        rule, option = support_of(key), find_option(key)
        value = unusual(option, rule.behaves_as)
        if rule.support is Support.REFUSED:
            with pytest.raises(ConfigurationError, match=f"'{re.escape(key)}' is not supported"):
                check_setting(key, value)
        else:
            assert said_about(caplog, key, value) == lines[rule.support]
            assert said_about(caplog, key, value) == [], "the line comes twice"
        if rule.behaves_as is not None or option.default is not None:
            usual = option.default if rule.behaves_as is None else rule.behaves_as
            assert said_about(caplog, key, usual) == []

    check_all({key: key for key in [*ALL, *NAMED] if key not in FILES | ONE_VALUE}, check)


def test_a_value_that_cannot_be_read_is_refused_for_every_key():
    def check(key):
        option = find_option(key)
        with pytest.raises(ConfigurationError) as caught:
            check_setting(key, "ba na na")
        assert caught.value.message == f"option '{key}' cannot be 'ba na na'"
        assert (option.choices[0] if option.choices else option.type.value) in caught.value.hint

    free = {OptionType.STRING, OptionType.LIST}
    typed = [key for key in [*ALL, *NAMED] if find_option(key).type not in free]
    lists_of_names = [
        key for key, option in LISTED.by_key.items()
        if option.type is OptionType.LIST and option.choices
    ]  # fmt: skip
    assert lists_of_names
    check_all({key: key for key in [*typed, *lists_of_names]}, check)


NAMES = {
    option.key: name
    for module in (option_names, table_options)
    for name, option in vars(module).items()
    if isinstance(option, ConfigOption)
}
# Classes whose methods keep what users set, and give it back to them: that alone has no effect.
SETTINGS = (
    "common/execution_config.py",
    "datastream/_environment_settings.py",
    "datastream/checkpoint_config.py",
    "datastream/checkpoint_storage.py",
    "datastream/state_backend.py",
    "table/table_config.py",
)


def words_of(tree: ast.AST) -> set[str]:
    """Return the names and the texts in code."""
    return {
        getattr(node, "attr", None) or getattr(node, "id", None) or str(getattr(node, "value", ""))
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute | ast.Name | ast.Constant)
    }


def words_with_an_effect() -> set[str]:
    """Return the names and texts in the code of the package: of classes of settings, those in methods that other modules call."""
    trees = {
        path.relative_to(PACKAGE).as_posix(): ast.parse(path.read_text())
        for path in PACKAGE.rglob("*.py")
        if not path.is_relative_to(PACKAGE / "common" / "options")
    }
    words = {
        word for name, tree in trees.items() if name not in SETTINGS for word in words_of(tree)
    }
    methods = [
        node
        for name in SETTINGS
        for node in ast.walk(trees[name])
        if isinstance(node, ast.FunctionDef)
    ]
    called = {method.name for method in methods} & words
    return words.union(*(words_of(method) for method in methods if method.name in called))


def test_code_reads_each_option_that_is_said_to_work():
    assert sorted(NAMES) == sorted(OPTIONS)
    words = words_with_an_effect()
    effective = {Support.WORKS, Support.DIFFERENT}
    keys = [key for key in ALL if support_of(key).support in effective and key not in ONE_VALUE]

    def check(key):
        # The Python dependencies of a job are read from its options as text.
        assert NAMES.get(key) in words or key in words, f"option '{key}' is read nowhere"

    check_all({key: key for key in keys}, check)


NEGATIVE = ("pekko.ask.timeout", "table.exec.state.ttl", "metrics.reporter.mine.interval")


def test_a_negative_duration_is_refused_as_flink_does():
    def check(key):
        with pytest.raises(ConfigurationError, match=f"'{re.escape(key)}' cannot be '-1 s'"):
            check_setting(key, "-1 s")

    check_all({key: key for key in NEGATIVE}, check)


def test_a_dialect_that_is_not_there_is_refused():
    with pytest.raises(ConfigurationError, match=r"'table\.sql-dialect' cannot be 'hive'"):
        check_setting("table.sql-dialect", "hive")


def test_older_names_of_flink_lead_to_their_options(caplog):
    def check(older):
        option = find_option(older)
        assert older in option.deprecated_keys
        if older in LISTED.by_older_key:
            assert option.key == LISTED.by_older_key[older].key or option.key in OPTIONS
        value = option.default if option.default is not None else unusual(option, None)
        try:
            levels = said_about(caplog, older, value)
        except ConfigurationError:
            assert support_of(option.key).support is Support.REFUSED
        else:
            assert levels[0] == "WARNING"
        assert f"'{older}' is an older name of '{option.key}'" in caplog.text

    own = [key for option in OPTIONS.values() for key in option.deprecated_keys]
    check_all({key: key for key in {*LISTED.by_older_key, *own}}, check)


UNKNOWN = {
    "taskmanager.memory.proces.size": "taskmanager.memory.process.size",
    "high-availability.storage-dir": "high-availability.storageDir",
    "paralelism.default": "parallelism.default",
    "execution.checkpoint.interval": "execution.checkpointing.interval",
    "taskmanager.numberOfTaskSlot": "taskmanager.numberOfTaskSlots",
    "state.backend.typ": "state.backend.type",
    "pekko.ask.timout": "pekko.ask.timeout",
    "penstock.epoch.intervall": "penstock.epoch.interval",
    "python.fn-execution.bundle.sise": "python.fn-execution.bundle.size",
    "table.exec.state.tll": "table.exec.state.ttl",
    "table.optimizer.reuse-sub-plan": "table.optimizer.reuse-sub-plan-enabled",
    "security.ssl.internal.enable": "security.ssl.internal.enabled",
    "web.cancel.enabled": "web.cancel.enable",
    "job.autoscaler.enable": "job.autoscaler.enabled",
    "spak.executor.memory": "spark.executor.memory",
    "metrics.latency.intervall": "metrics.latency.interval",
    "kubernetes.jobmanager.label.team": "kubernetes.jobmanager.labels",
}


def test_unknown_keys_are_refused_with_the_nearest_known_one():
    def check(key):
        with pytest.raises(ConfigurationError) as caught:
            check_setting(key, "1")
        assert caught.value.message == f"unknown option '{key}'"
        assert f"did you mean {UNKNOWN[key]}" in caught.value.hint

    check_all({key: key for key in UNKNOWN}, check)


def test_keys_of_a_program_its_plugins_and_spark_are_taken(caplog):
    own = ["my.own.key", "tenant", "user.name", "job.date", "sink.path", "application.parallelism"]
    for key in own:
        assert said_about(caplog, key, "x") == ["INFO"]
    with caplog.at_level(logging.INFO):
        check_setting("other.key", "x", "my.yaml, line 1")
    assert caplog.records[-1].levelname == "WARNING"
    for key in ("spark.anything.at.all", "pipeline.global-job-parameters.tenant"):
        assert said_about(caplog, key, "x") == []
    for key in ("s3.access-key", "fs.s3a.endpoint", "metrics.reporter.mine.port", "kubernetes.jobmanager.labels.team"):  # fmt: skip
        assert said_about(caplog, key, "x") == ["WARNING"]


ASKED_FOR = {
    "internal TLS": ("security.ssl.internal.enabled", "true", "spark.network.crypto.enabled"),
    "Kerberos": ("security.kerberos.login.keytab", "/etc/keytab", "spark.kerberos.keytab"),
    "changelog": ("state.backend.changelog.enabled", "true", "rocksdb"),
    "lengths at sinks": ("table.exec.sink.type-length-enforcer", "ERROR", "VARCHAR(n)"),
    "ACLs": ("high-availability.zookeeper.client.acl", "creator", "ZooKeeper"),
    "ciphers": ("security.ssl.algorithms", "TLS_AES_128_GCM_SHA256", "OpenSSL"),
}


def test_security_and_semantics_that_are_missing_are_refused_with_a_way_out():
    def check(case):
        key, value, hint = case
        with pytest.raises(ConfigurationError, match="is not supported") as caught:
            validate(Configuration.from_dict({key: value}))
        assert hint in caught.value.hint

    check_all(ASKED_FOR, check)


def test_the_list_is_read_when_a_key_is_met_that_is_not_defined():
    program = """
import sys
from penstock.common import Configuration
from penstock.datastream import StreamExecutionEnvironment
given = {"parallelism.default": "2", "spark.app.name": "x", "execution.checkpointing.interval": "1 s"}
env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(given))
assert "penstock.options.flink" not in sys.modules
env.configure(Configuration.from_dict({"pekko.ask.timeout": "1 s"}))
assert "penstock.options.flink" in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)


def test_defaults_of_the_list_are_values_of_their_types():
    assert LISTED.by_key["heartbeat.timeout"].default == Duration.of_seconds(50)
    assert LISTED.by_key["taskmanager.memory.jvm-metaspace.size"].default == 256 << 20
    assert LISTED.by_key["web.cancel.enable"].default is True
    assert LISTED.by_key["metrics.job.status.enable"].default == ["CURRENT_TIME"]
    assert len(LISTED.by_key) > 900
