"""SQL in the cells of a notebook: the shell, the magics and the jobs are the real ones."""

from __future__ import annotations

import pytest
from IPython.core.error import UsageError

from penstock.common.job_status import JobStatus
from penstock.errors import PenstockError
from penstock.notebook.live_result import LiveResult
from penstock.state.tables import SnapshotTable
from penstock.table import EnvironmentSettings, TableEnvironment
from tests.builders.notebooks import notebook

NUMBERS = """\
CREATE TABLE numbers (id BIGINT, word STRING) WITH ('connector' = 'datagen',
  'fields.id.kind' = 'sequence', 'fields.id.start' = '1', 'fields.id.end' = '{end}', 'fields.word.length' = '3')"""
ENDLESS = """\
CREATE TABLE numbers (id BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '50', 'fields.id.min' = '1')"""
VALUES = "(VALUES (1, 'a'), (2, 'b'), (1, 'c')) AS t(k, v)"


@pytest.fixture
def cells(tmp_path):
    with notebook(tmp_path) as running:
        running.run("%load_ext penstock")
        running.run("%flink_cluster local")
        yield running


def test_a_query_shows_the_rows_that_are_left(cells) -> None:
    shown = cells.run(f"%%flink_sql\nSELECT k, COUNT(*) AS n FROM {VALUES} GROUP BY k")
    assert "<tr><th>k</th><th>n</th></tr>" in shown[-1]
    for row in ("<tr><td>1</td><td>2</td></tr>", "<tr><td>2</td><td>1</td></tr>"):
        assert row in shown[-1]
    assert "2 rows" in shown[-1]
    assert "finished" in shown[-1]


def test_the_line_magic_executes_one_statement(cells) -> None:
    assert "<td>7</td>" in cells.run("%flink_sql SELECT 3 + 4 AS seven")[-1]


def test_statements_of_a_cell_run_one_after_another_in_one_environment(cells) -> None:
    table = NUMBERS.format(end=3)
    shown = cells.run(f"%%flink_sql\n{table};\nSHOW TABLES;\nSELECT SUM(id) AS s FROM numbers")
    assert [text for text in shown if "<pre>OK</pre>" in text]
    assert "numbers" in shown[1]
    assert "<td>6</td>" in shown[-1]
    assert isinstance(cells.names["t_env"], TableEnvironment)
    assert cells.printed == ""


def test_a_query_without_end_is_updated_until_it_has_enough_changes(cells) -> None:
    cells.run("%%flink_sql\n" + ENDLESS)
    shown = cells.run("%%flink_sql -n 60 -r 2\nSELECT id FROM numbers")
    assert len(shown) > 2
    assert ", running" in shown[0]
    assert "stopped after 60 changes" in shown[-1]
    assert shown[-1].count("<td>") == 2
    assert "the last 2 of 60 rows" in shown[-1]


def test_a_changelog_has_the_kinds_of_changes(cells) -> None:
    shown = cells.run(
        "%%flink_sql -c\nSELECT COUNT(*) AS n FROM (VALUES 1, 2) AS t(x) HAVING COUNT(*) > 0"
    )
    assert "<th>op</th><th>n</th>" in shown[-1]
    assert "<td>+I</td>" in shown[-1]


def test_values_and_names_are_escaped_and_cut(cells) -> None:
    query = "SELECT '<script>x</script>' AS `a<b`, REPEAT('y', 500) AS long"
    shown = cells.run(f"%%flink_sql -w 30\n{query}")[-1]
    assert "<script>" not in shown
    assert "<td>&lt;script&gt;x&lt;/script&gt;</td>" in shown
    assert "<th>a&lt;b</th>" in shown
    assert f"<td>{'y' * 29}…</td>" in shown


def test_the_table_of_a_query_is_kept_for_what_follows(cells) -> None:
    cells.run(f"%%flink_sql -o totals\nSELECT k, COUNT(*) AS n FROM {VALUES} GROUP BY k")
    assert sorted(cells.names["totals"].to_polars().rows()) == [(1, 2), (2, 1)]


def test_an_environment_of_the_program_is_used(cells) -> None:
    cells.names["mine"] = TableEnvironment.create(EnvironmentSettings.in_batch_mode())
    cells.run("%flink_sql CREATE TEMPORARY VIEW v AS SELECT 5 AS five")
    assert cells.names["mine"].list_views() == ["v"]
    assert "t_env" not in cells.names
    cells.names["other"] = TableEnvironment.create(EnvironmentSettings.in_batch_mode())
    with pytest.raises(UsageError, match="several TableEnvironments"):
        cells.run("%flink_sql SHOW TABLES")
    assert "<td>v</td>" in cells.run("%%flink_sql -e mine\nSHOW TABLES")[-1]
    assert cells.names["mine"].get_config().get("penstock.progress", "") == ""


@pytest.mark.parametrize(
    ("cell", "error", "message"),
    [
        ("%%flink_sql\nSELECT nothing FROM nowhere", PenstockError, "nowhere"),
        ("%%flink_sql -r 0\nSELECT 1", UsageError, "--rows must be at least 1"),
        ("%%flink_sql -e other\nSELECT 1", UsageError, "'other' is not a TableEnvironment"),
        ("%flink_sql", UsageError, "no statement"),
        ("%flink_cluster yarn", UsageError, "got 'yarn'"),
    ],
)
def test_mistakes_fail_the_cell_with_a_message(cells, cell, error, message) -> None:
    with pytest.raises(error, match=message):
        cells.run(cell)


def test_a_failed_query_fails_the_cell(cells) -> None:
    with pytest.raises(PenstockError):
        cells.run("%%flink_sql\nSELECT CAST(v AS INT) AS n FROM (VALUES 'x') AS t(v)")


def test_an_insert_shows_its_job(cells) -> None:
    cells.run("%%flink_sql\nCREATE TABLE nowhere (k INT) WITH ('connector' = 'blackhole')")
    shown = cells.run(f"%%flink_sql\nINSERT INTO nowhere SELECT k FROM {VALUES}")[-1]
    assert "<td>job</td>" in shown
    assert "<td>status</td>" in shown


def test_tables_and_state_are_shown_as_html(cells) -> None:
    cells.run(f"%%flink_sql -o t\nSELECT k, v FROM {VALUES}")
    (shown,) = cells.run("t")
    assert "<td>k</td><td>INT NOT NULL</td>" in shown
    assert "<summary>plan</summary>" in shown
    assert "Optimized" in shown
    rows = [(n, "<b>") for n in range(30)]
    cells.names["state"] = SnapshotTable("totals", ("key", "value"), lambda: iter(rows))
    (shown,) = cells.run("state")
    assert "<td>19</td><td>&#x27;&lt;b&gt;&#x27;</td>" in shown
    assert "<td>20</td>" not in shown
    assert "totals, the first 20 rows" in shown


def test_the_extension_can_be_taken_away(cells) -> None:
    cells.run("%unload_ext penstock")
    with pytest.raises(UsageError, match="flink_sql"):
        cells.run("%flink_sql SELECT 1") or cells.shell.run_line_magic("flink_sql", "SELECT 1")
    cells.run("%load_ext penstock")


def test_an_interrupt_stops_the_query_and_leaves_the_last_rows(cluster) -> None:
    env = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    env.get_config().set("penstock.execution.mode", "pipelined")
    env.execute_sql(ENDLESS)
    result = env.execute_sql("SELECT id FROM numbers")
    shown = []

    def show(html):
        shown.append(html)
        if len(shown) == 2:
            raise KeyboardInterrupt

    LiveResult(result, show).follow()
    assert len(shown) == 3
    assert shown[-1].endswith("stopped</small></p>")
    assert result.get_job_client().get_job_status().result() is JobStatus.CANCELED


def test_columns_beyond_the_limit_are_counted() -> None:
    from penstock.sql.results.html_tables import html_table

    shown = html_table([f"c{n}" for n in range(60)], [[str(n) for n in range(60)]])
    assert shown.count("<td>") == 51
    assert "10 more columns" in shown
