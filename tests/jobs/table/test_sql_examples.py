"""The examples of SQL: the statements of the page, the shop, the notebook."""

from __future__ import annotations

import itertools
import json
import re
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

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


def test_the_notebook_shows_a_table_that_changes(monkeypatch):
    notebook = json.loads((SHOP / "live_query.ipynb").read_text())
    shown = []
    handle = SimpleNamespace(update=shown.append)
    module = ModuleType("IPython")
    module.display = SimpleNamespace(display=lambda table, **_: shown.append(table) or handle)
    monkeypatch.setitem(sys.modules, "IPython", module)
    monkeypatch.setitem(sys.modules, "IPython.display", module.display)
    monkeypatch.chdir(SHOP)
    names = {}
    # The notebook looks at the clock twice for each row: the ten seconds are some 250 rows.
    clock = SimpleNamespace(monotonic=(n / 50 for n in itertools.count()).__next__)
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            code = "".join(cell["source"]).replace("'2' S", "'1' S")
            if "TUMBLE" in code:
                code = code.replace("seconds=10", "seconds=0.1")  # some rows of the first window
            exec(code, names)
            if "time" in names:
                names["time"] = clock
    totals, sold = names["totals"], names["sold"]
    assert len(shown) > 6
    assert totals["orders"].sum() >= 100
    assert list(totals.columns) == ["customer", "orders", "spent"]
    assert list(sold.columns) == ["window_start", "product", "sold"]
    assert len(sold) >= 1
