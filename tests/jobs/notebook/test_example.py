"""The notebook of the examples, executed cell by cell in IPython."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from tests.builders.notebooks import notebook

NOTEBOOK = Path(__file__).parents[3] / "examples" / "sql" / "live_query.ipynb"


def test_the_notebook_shows_live_tables_and_polars_frames(tmp_path) -> None:
    with notebook(tmp_path) as cells:
        _, created, live, changelog, schema, changes, polars, plan = cells.run_file(NOTEBOOK)
        names = dict(cells.names)
    assert created == ["<pre>OK</pre>"]
    assert ", running" in live[0]
    assert "<th>customer</th><th>orders</th><th>spent</th>" in live[-1]
    assert "stopped after 1,000 changes" in live[-1]
    assert changelog[-1].count("<tr>") == 1 + 10
    assert "<th>op</th>" in changelog[-1]
    assert "<td>spent</td>" in schema[0]
    assert names["changes"].columns == ["row_kind", "customer", "orders", "spent"]
    assert set(names["changes"]["row_kind"].to_list()) <= {"+I", "-U", "+U"}
    assert "COFFEE" in polars[0]
    assert "COCOA" in polars[0]
    assert isinstance(names["changes"], pl.DataFrame)
    assert "Optimized Execution Plan" in plan[0]
    assert changes
