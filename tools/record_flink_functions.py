"""Ask real Flink SQL what expressions give, and keep its answers for the tests.

    PYTHON_WITH_FLINK tools/record_flink_functions.py [tests/unit/sql/expr/flink_expressions.txt]

The file has one expression per line. The answers are written beside it (.json): for each expression its type as TYPEOF shows it and its value
as text, or which part of Flink refused it: `plan` (the expression is not valid) or `run` (it failed at run time). Expressions answered before are not asked again.
Runs in an environment with apache-flink, without this package.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

DEFAULT = Path(__file__).parent.parent / "tests" / "unit" / "sql" / "expr" / "flink_expressions.txt"
AT_ONCE = 30


def expressions_of(path: Path) -> list[str]:
    """Return the expressions of a file: lines that are neither empty nor comments."""
    lines = (line.strip() for line in path.read_text().splitlines())
    return [line for line in lines if line and not line.startswith("#")]


def zone_of(line: str) -> tuple[str, str]:
    """Return the time zone that a line is asked in, and its expression.

    >>> zone_of("[Europe/Berlin] NOW()")
    ('Europe/Berlin', 'NOW()')
    """
    found = re.match(r"\[([A-Za-z][^\]]+)\] (.*)", line)
    return (found[1], found[2]) if found else ("UTC", line)


class Recorder:
    """Asks many expressions in one query; where that fails, each half for itself."""

    def __init__(self) -> None:
        from pyflink.table import EnvironmentSettings, TableEnvironment

        self.tables = TableEnvironment.create(EnvironmentSettings.in_batch_mode())
        config = self.tables.get_config()
        config.set("parallelism.default", "1")
        config.set("restart-strategy.type", "none")
        self.answers: dict[str, Any] = {}

    def record(self, expressions: list[str], zone: str) -> None:
        """Get the answers of all these, in one session time zone."""
        self.tables.get_config().set("table.local-time-zone", zone)
        self.zone = zone
        for start in range(0, len(expressions), AT_ONCE):
            self._record(expressions[start : start + AT_ONCE])

    def _record(self, expressions: list[str], typed: bool = True) -> None:
        columns = ", ".join(
            f"{f'TYPEOF({text})' if typed else 'CAST(NULL AS STRING)'} AS t{at}, CAST({text} AS STRING) AS v{at}"
            for at, text in enumerate(expressions)
        )
        try:
            table = self.tables.sql_query(f"SELECT {columns}")
            table.explain()
        except Exception as error:  # noqa: BLE001 - whatever Java throws
            self._halves(expressions, "plan", error, typed)
            return
        try:
            with table.execute().collect() as results:
                row = next(iter(results))
        except Exception as error:  # noqa: BLE001
            self._halves(expressions, "run", error, typed)
            return
        for at, text in enumerate(expressions):
            self._keep(text, [row[2 * at], row[2 * at + 1]])

    def _keep(self, text: str, answer: Any) -> None:
        self.answers[text if self.zone == "UTC" else f"[{self.zone}] {text}"] = answer

    def _halves(self, expressions: list[str], stage: str, error: Exception, typed: bool) -> None:
        if len(expressions) > 1:
            middle = len(expressions) // 2
            self._record(expressions[:middle])
            self._record(expressions[middle:])
        elif stage == "plan" and typed:  # TYPEOF itself fails for some
            self._record(expressions, typed=False)
        else:
            self._keep(expressions[0], {"error": stage, "text": _reason(error)})


def _reason(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines()]
    causes = [line for line in lines if line.startswith("Caused by:")]
    thrown = [line for line in lines if "Exception" in line or "Error" in line]
    found = causes or thrown[:1] or lines
    return found[-1][:200] if found else type(error).__name__


def main() -> None:
    """Record what is not recorded yet."""
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else DEFAULT
    target = path.with_suffix(".json")
    known = json.loads(target.read_text()) if target.exists() else {}
    wanted = expressions_of(path)
    recorder = Recorder()
    missing = [text for text in dict.fromkeys(wanted) if text not in known]
    for zone in dict.fromkeys(zone_of(text)[0] for text in missing):
        recorder.record([plain for at, plain in map(zone_of, missing) if at == zone], zone)
    answers = {text: known.get(text) or recorder.answers[text] for text in dict.fromkeys(wanted)}
    lines = ",\n".join(
        f"{json.dumps(text)}: {json.dumps(answer)}" for text, answer in answers.items()
    )
    target.write_text("{\n" + lines + "\n}\n")
    print(f"{len(answers)} answers, {len(missing)} of them new")


if __name__ == "__main__":
    main()
