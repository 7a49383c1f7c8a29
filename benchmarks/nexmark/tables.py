"""Nexmark's tables in SQL, over files."""

from __future__ import annotations

from typing import Final

COLUMNS: Final = {
    "person": """
  id BIGINT, name STRING, emailAddress STRING, creditCard STRING, city STRING, state STRING, `dateTime` TIMESTAMP(3), extra STRING""",
    "auction": """
  id BIGINT, itemName STRING, description STRING, initialBid BIGINT, reserve BIGINT, `dateTime` TIMESTAMP(3), expires TIMESTAMP(3), seller BIGINT, category BIGINT,
  extra STRING""",
    "bid": """
  auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, `dateTime` TIMESTAMP(3), extra STRING""",
}
WATERMARK: Final = "WATERMARK FOR `dateTime` AS `dateTime` - INTERVAL '4' SECOND"


def statements(home: str, form: str) -> list[str]:
    """Return the statements that make the tables of the queries, over the files below `home`."""
    tables = [
        f"CREATE TABLE {kind} ({columns},\n  {WATERMARK}) WITH ('connector' = 'filesystem', 'path' = '{home}/{kind}', 'format' = '{form}')"
        for kind, columns in COLUMNS.items()
    ]
    files = f"'connector' = 'filesystem', 'path' = '{home}/side_input', 'format' = 'csv'"
    return [
        *tables,
        "CREATE VIEW bid_now AS SELECT *, PROCTIME() AS p_time FROM bid",
        "CREATE VIEW bid_keyed AS SELECT *, MOD(auction, 10000) AS side_key, PROCTIME() AS p_time FROM bid",
        f"CREATE TABLE side_input (key BIGINT, `value` STRING) WITH ({files})",
    ]
