"""The examples of SQL: the statements of the page and the shop."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from penstock.client.local_cluster import LocalCluster
from penstock.sql.parse.parser import parse
from penstock.sql.parse.statements import InsertStatement, QueryStatement, StatementSetBlock
from penstock.table import EnvironmentSettings, TableEnvironment

ROOT = Path(__file__).parents[3]
SHOP = ROOT / "examples" / "sql"
ORDERS = """\
1,ann,5.00,2024-01-01 10:01:00
2,bob,700.00,2024-01-01 10:02:00
3,ann,150.00,2024-01-01 10:03:00
4,ann,7.00,2024-01-01 10:04:00
"""


@pytest.fixture
def environment():
    with LocalCluster():
        yield TableEnvironment.create(EnvironmentSettings.in_streaming_mode())


def test_the_statements_of_the_page_run(environment, tmp_path):
    (tmp_path / "orders.csv").write_text(ORDERS)
    page = (
        (ROOT / "docs" / "reference" / "sql.md").read_text().replace("/tmp/orders", str(tmp_path))
    )
    counts = []
    for block in re.findall(r"```sql\n(.*?)```", page, re.DOTALL):
        for statement in parse(block):
            result = environment.execute_sql(statement.text)
            if isinstance(statement, InsertStatement | StatementSetBlock):
                result.wait()
            elif isinstance(statement, QueryStatement):
                kinds = [str(row.get_row_kind())[0] for row in result.collect()]
                counts.append(kinds.count("+") - kinds.count("-"))  # what is left in the end
    assert counts == [0, 1, 7, 3, 2, 2, 4, 4, 1, 10]


@pytest.mark.parametrize("number", range(5))
def test_the_queries_of_the_shop_give_rows(environment, number):
    environment.get_config().set("penstock.execution.mode", "pipelined")
    tables = (SHOP / "shop.sql").read_text()
    # Faster and with an end, so that windows are complete.
    tables = tables.replace("'100'", "'20000', 'number-of-rows' = '20000'")
    for statement in parse(tables):
        environment.execute_sql(statement.text)
    query = parse((SHOP / "queries.sql").read_text())[number]
    with environment.execute_sql(query.text).collect() as rows:
        assert next(rows) is not None
