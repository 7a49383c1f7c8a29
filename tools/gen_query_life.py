"""Writes the stages of a query into docs/developers/life-of-a-query.md, from a real run of it.

    python tools/gen_query_life.py

Text between `<!-- generated: name -->` and `<!-- end -->` is replaced. A test checks that the page shows what the planner
does today.
"""

from __future__ import annotations

import io
import re
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Any

from penstock.drawing.job_graph_drawing import draw_tree
from penstock.graph.compiler import compile_program
from penstock.graph.settings import GraphSettings
from penstock.runtime.columnar.expressions import compile_expression
from penstock.sql.logical.plan_texts import logical_tree
from penstock.sql.parse.parser import parse
from penstock.sql.parse.statements import QueryStatement
from penstock.sql.parse.tokens import SqlText, TokenKind, tokenize
from penstock.sql.physical.explain import physical_tree
from penstock.sql.rules import optimizer
from penstock.table import EnvironmentSettings, TableEnvironment
from penstock.testing import MiniCluster

PAGE = Path(__file__).parents[1] / "docs" / "developers" / "life-of-a-query.md"
ORDERS = "ann,5,1000,card\nbob,0,2000,cash\nann,7,3000,cash\nbob,9,12000,card\n"
TABLE = """\
CREATE TABLE orders (
  customer STRING, price INT, millis BIGINT, payment STRING,
  at AS TO_TIMESTAMP_LTZ(millis, 3),
  WATERMARK FOR at AS at - INTERVAL '1' SECOND
) WITH ('connector' = 'filesystem', 'format' = 'csv', 'path' = '{path}')"""
QUERY = """\
SELECT customer, window_end, SUM(price * (100 + 20)) AS cents
FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(at), INTERVAL '10' SECOND))
WHERE price > 0
GROUP BY customer, window_start, window_end"""


def blocks() -> dict[str, str]:
    """Return all generated parts of the page by name."""
    with tempfile.TemporaryDirectory() as directory, MiniCluster():
        path = Path(directory, "orders.csv")
        path.write_text(ORDERS)
        env = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
        env.get_config().set("table.local-time-zone", "UTC")
        env.get_config().set("parallelism.default", "2")
        env.execute_sql(TABLE.format(path=path))
        found = _stages(env)
        found["result"] = _text(_printed(env))
        return {name: text.replace(str(path), "orders.csv") for name, text in found.items()}


def _stages(env: TableEnvironment) -> dict[str, str]:
    planner = env.context.planner
    (statement,) = parse(QUERY)
    assert isinstance(statement, QueryStatement)
    logical = planner.query(statement)
    with _recorded_rules() as steps:
        physical = planner.plan([logical])
    transformations = planner.translate_plan(physical)
    settings = GraphSettings(job_name="query", parallelism=2)
    plans = compile_program(transformations, settings)
    return {
        "table": _fence("sql", TABLE.format(path="orders.csv")),
        "query": _fence("sql", QUERY),
        "tokens": _text(_tokens()),
        "tree": _text(repr(statement.tree.args["where"].this)),
        "logical": _text(logical_tree([logical])),
        "rules": "\n\n".join(_rule(name, before, after) for name, before, after in steps),
        "physical": _text(physical_tree(physical.roots, changes=True)),
        "transformations": _text("\n".join(_steps(transformations[0]))),
        "job_graph": _text(draw_tree(plans.job_graph)),
        "polars": _text("\n".join(_expressions(transformations[0]))),
    }


def _tokens() -> str:
    line = QUERY.index("WHERE"), QUERY.index("GROUP")
    tokens = [each for each in tokenize(SqlText(QUERY)) if line[0] <= each.start < line[1]]
    return "\n".join(
        f"{each.kind.name:<7} {each.text}" for each in tokens if each.kind is not TokenKind.END
    )


@contextmanager
def _recorded_rules() -> Iterator[list[tuple[str, str, str]]]:
    """Record the plans before and after each rule that the optimizer applies and that changes one."""
    steps: list[tuple[str, str, str]] = []

    def recording(rule: Callable[..., Any]) -> Callable[..., Any]:
        def apply(roots: Any, *more: Any) -> Any:
            after = rule(roots, *more)
            texts = logical_tree(roots, reuse=True), logical_tree(after, reuse=True)
            if texts[0] != texts[1]:
                steps.append((rule.__name__, *texts))
            return after

        return apply

    rules = {
        name: value
        for name, value in vars(optimizer).items()
        if callable(value) and getattr(value, "__module__", "").startswith("penstock.sql.rules.")
    }
    del rules["optimize"]
    before = optimizer.RULES[:]
    optimizer.RULES[:] = [recording(rule) for rule in before]
    for name, rule in rules.items():
        setattr(optimizer, name, recording(rule))
    try:
        yield steps
    finally:
        optimizer.RULES[:] = before
        for name, rule in rules.items():
            setattr(optimizer, name, rule)


def _rule(name: str, before: str, after: str) -> str:
    """Return what a rule changes: the lines that only the plan after it has."""
    old = set(before.splitlines())
    marked = [f"{' ' if line in old else '>'} {line}" for line in after.splitlines()]
    return f"`{name}` (`penstock/sql/rules/{name}.py`):\n\n" + _text("\n".join(marked))


def _steps(last: Any) -> list[str]:
    lines: list[str] = []
    while True:
        spec = getattr(last, "spec", None) or getattr(last, "partitioning", None)
        lines.append(f"{type(last).__name__:<24} {type(spec).__name__:<27} {last.name}")
        if not last.inputs:
            return lines[::-1]
        (last,) = last.inputs


def _expressions(last: Any) -> list[str]:
    """Return the compiled expressions of all filters and projections, sources first."""
    found: list[str] = []
    while True:
        spec = getattr(last, "spec", None)
        lines = []
        for part in ("condition", "projection"):
            rexes = getattr(spec, part, None)
            if rexes is not None:
                many = rexes if isinstance(rexes, tuple | list) else [rexes]
                lines += [f"  {part:<10} {compile_expression(each)}" for each in many]
        if lines:
            found = [last.name, *lines, *found]
        if not last.inputs:
            return found
        (last,) = last.inputs


def _printed(env: TableEnvironment) -> str:
    printed = io.StringIO()
    with redirect_stdout(printed):
        env.execute_sql(QUERY).print()
    lines = printed.getvalue().splitlines()
    return "\n".join([*lines[:3], *sorted(lines[3:-2]), *lines[-2:]])


def _text(text: str) -> str:
    return _fence("text", text)


def _fence(language: str, text: str) -> str:
    return f"```{language}\n{text}\n```"


def render(page: str, found: dict[str, str]) -> str:
    """Return the page with all generated blocks put in."""
    names = set(re.findall(r"<!-- generated: (\w+) -->", page))
    if names != set(found):
        raise SystemExit(f"the page and the blocks differ: {sorted(names ^ set(found))}")
    return re.sub(
        r"(<!-- generated: (\w+) -->\n).*?(<!-- end -->)",
        lambda match: f"{match[1]}\n{found[match[2]]}\n\n{match[3]}",
        page,
        flags=re.DOTALL,
    )


if __name__ == "__main__":
    PAGE.write_text(render(PAGE.read_text(), blocks()))
