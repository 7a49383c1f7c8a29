"""How objects look in a notebook that have no HTML of their own."""

from __future__ import annotations

from typing import Any

from penstock.common.job_client import JobClient
from penstock.rest.publish import publisher
from penstock.sql.results.html_tables import MOST_ROWS, html_schema, html_table
from penstock.sql.results.resolved_schema import ResolvedSchema
from penstock.state.tables import SnapshotTable


def html_job(client: JobClient) -> str:
    """Return id, status and page of a job."""
    job_id = str(client.get_job_id())
    rows = [("job", job_id), ("status", client.get_job_status().result().name)]
    page = publisher().page_address(0.0)
    if page is not None:
        rows.append(("page", page.partition("/#")[0]))
    return html_table(["", ""], rows)


def html_state(table: SnapshotTable) -> str:
    """Return the first rows of a table of state."""
    rows = table.head(MOST_ROWS + 1)
    note = table.name if len(rows) <= MOST_ROWS else f"{table.name}, the first {MOST_ROWS} rows"
    texts = [[repr(value) for value in row] for row in rows[:MOST_ROWS]]
    return html_table(list(table.columns), texts, note)


#: What is shown as HTML, by class; Table and TableResult have HTML of their own
FORMATTERS: dict[type[Any], Any] = {
    JobClient: html_job,
    ResolvedSchema: html_schema,
    SnapshotTable: html_state,
}
