"""Plans of one query of each kind, as text: `python -m tests.unit.sql.physical.explained` rewrites explained.txt."""

from __future__ import annotations

from pathlib import Path

from penstock.sql.parse.parser import parse
from penstock.table import EnvironmentSettings, ExplainDetail, TableEnvironment

FILE = Path(__file__).with_suffix(".txt")
TABLES = """
CREATE TABLE orders (id BIGINT, customer STRING, product INT, price INT, tags ARRAY<STRING>, at TIMESTAMP(3),
  pt AS PROCTIME(), WATERMARK FOR at AS at - INTERVAL '5' SECOND) WITH ('connector' = 'datagen');
CREATE TABLE shipments (id BIGINT, order_id BIGINT, at TIMESTAMP(3), WATERMARK FOR at AS at) WITH ('connector' = 'datagen');
CREATE TABLE rates (product INT, rate DOUBLE, at TIMESTAMP(3), WATERMARK FOR at AS at,
  PRIMARY KEY (product) NOT ENFORCED) WITH ('connector' = 'datagen');
CREATE TABLE counts (customer STRING, n BIGINT, PRIMARY KEY (customer) NOT ENFORCED) WITH ('connector' = 'print');
CREATE TABLE lines (customer STRING, n BIGINT) WITH ('connector' = 'print');
"""
QUERIES = {
    "projection and condition": "SELECT id, UPPER(customer) AS who FROM orders WHERE price > 10 AND product = 3",
    "groups": "SELECT customer, COUNT(*) AS n, SUM(price) FILTER (WHERE price > 10) AS large FROM orders GROUP BY customer",
    "groups of groups": "SELECT n, COUNT(*) AS customers FROM (SELECT customer, COUNT(*) AS n FROM orders GROUP BY customer) GROUP BY n",
    "distinct values": "SELECT COUNT(DISTINCT customer) AS customers FROM orders",
    "grouping sets": "SELECT customer, product, SUM(price) AS total FROM orders GROUP BY GROUPING SETS ((customer), (product))",
    "a window as a table": "SELECT window_start, customer, SUM(price) AS total FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(at), INTERVAL '10' MINUTE)) GROUP BY window_start, window_end, customer",
    "a window in GROUP BY": "SELECT HOP_END(at, INTERVAL '1' MINUTE, INTERVAL '5' MINUTE) AS e, COUNT(*) AS n FROM orders GROUP BY HOP(at, INTERVAL '1' MINUTE, INTERVAL '5' MINUTE)",
    "sessions": "SELECT customer, window_end, COUNT(*) AS n FROM TABLE(SESSION(TABLE orders PARTITION BY customer, DESCRIPTOR(at), INTERVAL '5' MINUTE)) GROUP BY customer, window_start, window_end",
    "the best of each window": "SELECT * FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY total DESC) AS place FROM (SELECT window_start, window_end, customer, SUM(price) AS total FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(at), INTERVAL '1' HOUR)) GROUP BY window_start, window_end, customer)) WHERE place <= 3",
    "the best of each key": "SELECT id, customer FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY customer ORDER BY price DESC) AS place FROM orders) WHERE place <= 3",
    "the first of each key": "SELECT id, customer FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY customer ORDER BY pt) AS place FROM orders) WHERE place = 1",
    "the first rows": "SELECT id, price FROM orders ORDER BY price DESC LIMIT 5",
    "in the order of time": "SELECT id FROM orders ORDER BY at, id",
    "running sums": "SELECT id, SUM(price) OVER (PARTITION BY customer ORDER BY at RANGE BETWEEN INTERVAL '1' HOUR PRECEDING AND CURRENT ROW) AS last_hour FROM orders",
    "join": "SELECT o.id, s.id AS shipment FROM orders o LEFT JOIN shipments s ON o.id = s.order_id AND o.price > 5",
    "join within an interval": "SELECT o.id FROM orders o JOIN shipments s ON o.id = s.order_id AND s.at BETWEEN o.at AND o.at + INTERVAL '4' HOUR",
    "join as of a time": "SELECT o.id, r.rate FROM orders o JOIN rates FOR SYSTEM_TIME AS OF o.at AS r ON o.product = r.product",
    "in a subquery": "SELECT id FROM orders WHERE customer NOT IN (SELECT customer FROM orders WHERE price > 100) AND EXISTS (SELECT 1 FROM shipments s WHERE s.order_id = orders.id)",
    "elements of a list": "SELECT id, tag FROM orders CROSS JOIN UNNEST(tags) AS t(tag)",
    "union and intersection": "SELECT id FROM orders UNION SELECT order_id FROM shipments INTERSECT SELECT id FROM shipments",
    "rows of the query": "SELECT name FROM (VALUES (1, 'tea'), (2, 'coffee')) AS t(n, name) WHERE n > 1",
    "pattern": "SELECT * FROM orders MATCH_RECOGNIZE (PARTITION BY customer ORDER BY at MEASURES A.id AS a, LAST(B.id) AS b ONE ROW PER MATCH AFTER MATCH SKIP PAST LAST ROW PATTERN (A B+ C) DEFINE A AS A.price < 10, B AS B.price > 100, C AS C.price < 10) AS m",
    "insert by key": "INSERT INTO counts SELECT customer, COUNT(*) FROM orders GROUP BY customer",
    "statement set": "EXECUTE STATEMENT SET BEGIN INSERT INTO counts SELECT customer, COUNT(*) FROM orders GROUP BY customer; INSERT INTO lines SELECT customer, id FROM orders WHERE price > 5; END",
}


def explained() -> dict[str, str]:
    """Return how each query is run, with the kinds of changes."""
    environment = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    for statement in parse(TABLES):
        environment.execute_sql(statement.text)
    return {
        name: environment.explain_sql(text, ExplainDetail.CHANGELOG_MODE)
        for name, text in QUERIES.items()
    }


def written(plans: dict[str, str]) -> str:
    """Return plans as the file has them."""
    return "\n".join(f"=== {name}\n{QUERIES[name]}\n\n{text}" for name, text in plans.items())


def remembered() -> dict[str, str]:
    """Return what the file has, by name."""
    parts = FILE.read_text(encoding="utf-8").removeprefix("=== ").split("\n=== ")
    return dict(part.split("\n", 1) for part in parts)


if __name__ == "__main__":
    FILE.write_text(written(explained()), encoding="utf-8")
