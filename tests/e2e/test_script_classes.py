"""Classes that only the user's script has travel through exchanges, state and sinks."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
from dataclasses import dataclass

from penstock.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from penstock.datastream.state import ListStateDescriptor


@dataclass
class Payment:
    card: str
    amount: int


class Largest(KeyedProcessFunction):
    def open(self, runtime_context):
        self.seen = runtime_context.get_list_state(ListStateDescriptor("seen", None))

    def process_element(self, value, ctx):
        self.seen.add(value)
        yield max(self.seen.get(), key=lambda payment: payment.amount)


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(2)
payments = env.from_collection([Payment("a", 1), Payment("b", 7), Payment("a", 5), Payment("a", 3)])
stream = payments.map(lambda p: Payment(p.card, p.amount * 10)).key_by(lambda p: p.card).process(Largest())
with stream.execute_and_collect() as found:
    results = sorted((p.card, p.amount, isinstance(p, Payment)) for p in found)
print(results)
"""


@pytest.mark.ci
def test_records_of_a_class_of_the_script(tmp_path: Path) -> None:
    script = tmp_path / "program.py"
    script.write_text(PROGRAM)
    ran = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=240)
    assert all(line.startswith("job '") for line in ran.stderr.splitlines()), ran.stderr
    assert ran.stdout.strip() == str(
        [("a", 10, True), ("a", 50, True), ("a", 50, True), ("b", 70, True)]
    )
