"""Tests wait for events: none asserts how long something took, and none sleeps except for a reason that is listed here."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
CLOCKS = {"monotonic", "perf_counter", "process_time", "time", "time_ns", "monotonic_ns"}

# Modules in which something sleeps, and why that does not stand for an event.
SLEEPS = {
    "between two looks at a condition": {
        "builders/stages.py",
        "builders/waiting.py",
        "connectors/high_availability/looking_leader.py",
        "e2e/test_command_line.py",
        "e2e/test_demo.py",
        "e2e/test_interrupt.py",
        "faults/broker_harness.py",
        "faults/crossing_run.py",
        "faults/fault_harness.py",
        "faults/jobs/clockwork.py",
        "faults/jobs/kafka_ledger.py",
        "faults/jobs/watchers.py",
        "faults/jobs/zoo_inputs.py",
        "faults/standalone_cluster.py",
        "faults/test_sessions.py",
        "faults/test_slow_sink.py",
        "jobs/savepoint/test_between_ways.py",
        "unit/runtime/network/slots.py",
        "unit/runtime/network/test_bad_lines.py",
    },
    "sources and functions that are slow on purpose": {
        "builders/counting_job.py",
        "builders/flawed_connectors.py",
        "builders/measured_job.py",
        "connectors/elasticsearch/test_bulk_jobs.py",
        "connectors/kafka/sink_jobs.py",
        "connectors/redis/test_redis_jobs.py",
        "connectors/redis/test_redis_lookup.py",
        "faults/jobs/crossing.py",
        "faults/jobs/ledger.py",
        "faults/jobs/slow_sink.py",
        "jobs/checkpoint/killed_drivers.py",
        "jobs/checkpoint/test_snapshots_beside_processing.py",
        "jobs/checkpoint/test_unaligned_jobs.py",
        "jobs/jobmanager/test_checkpoint_figures.py",
        "jobs/jobmanager/test_clock_set_back.py",
        "jobs/jobmanager/test_pipelined.py",
        "jobs/runtime/test_connector_calls.py",
        "spark/pipelined_jobs.py",
        "spark/test_autoscaler.py",
        "spark/test_cancelling.py",
        "spark/test_task_events.py",
    },
    "threads that begin late on purpose": {"builders/thread_delays.py"},
    "servers that are away for some time": {
        "connectors/kafka/test_sink_broker_restarts.py",
        "connectors/kafka/test_source_running.py",
    },
}


def is_clock(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in CLOCKS
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id == "time"
    )


def measures(test: ast.expr) -> bool:
    """Whether a condition compares the time that has passed with something."""
    return any(
        isinstance(node, ast.BinOp)
        and isinstance(node.op, ast.Sub)
        and any(map(is_clock, ast.walk(node)))
        for node in ast.walk(test)
    )


def measured_times(tree: ast.AST) -> Iterator[int]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Assert) and measures(node.test):
            yield node.lineno


def sleeps(tree: ast.AST) -> bool:
    """Whether a module calls `time.sleep`; asynchronous calls that take a while are what their operators are for."""
    nodes = list(ast.walk(tree))
    imports = any(isinstance(node, ast.Import) and node.names[0].name == "time" for node in nodes)
    return imports and any(
        isinstance(node, ast.Attribute)
        and node.attr == "sleep"
        and isinstance(node.value, ast.Name)
        and node.value.id == "time"
        for node in nodes
    )


@pytest.fixture(scope="module")
def modules() -> dict[str, ast.AST]:
    paths = sorted(TESTS.rglob("*.py"))
    return {path.relative_to(TESTS).as_posix(): ast.parse(path.read_text()) for path in paths}


def test_no_test_asserts_how_long_something_took(modules):
    found = [f"{name}:{line}" for name, tree in modules.items() for line in measured_times(tree)]
    assert found == []


def test_only_listed_modules_sleep(modules):
    listed = {name for names in SLEEPS.values() for name in names}
    assert {name for name, tree in modules.items() if sleeps(tree)} == listed


@pytest.mark.parametrize(
    ("line", "is_measured"),
    [
        ("assert time.monotonic() - begun < 1", True),
        ("assert 0.1 < time.perf_counter() - begun", True),
        ("assert time.monotonic() < deadline", False),
        ("assert moment <= time.time()", False),
    ],
)
def test_asserted_durations_are_found(line, is_measured):
    assert bool(list(measured_times(ast.parse(line)))) is is_measured
