-- Queries over the tables of shop.sql, one for each kind. Copy them into: penstock sql --no-spark -i examples/sql/shop.sql

-- What each customer has spent so far: a table that changes.
SELECT customer, COUNT(*) AS orders, SUM(price) AS spent FROM orders GROUP BY customer;

-- What is sold every five seconds: rows that are final.
SELECT window_start, name, COUNT(*) AS sold, SUM(price) AS earned
FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(at), INTERVAL '5' SECONDS)) AS w JOIN products AS p ON w.product = p.product
GROUP BY window_start, window_end, name;

-- The three best customers of every ten seconds.
SELECT window_end, customer, spent FROM (
  SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY spent DESC) AS place FROM (
    SELECT window_start, window_end, customer, SUM(price) AS spent
    FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(at), INTERVAL '10' SECONDS))
    GROUP BY window_start, window_end, customer))
WHERE place <= 3;

-- The five dearest orders ever.
SELECT id, customer, price FROM orders ORDER BY price DESC, id LIMIT 5;

-- A cheap order, then a dear one of the same customer within a second.
SELECT * FROM orders MATCH_RECOGNIZE (
  PARTITION BY customer ORDER BY at
  MEASURES A.price AS cheap, B.price AS dear, B.at AS at
  ONE ROW PER MATCH AFTER MATCH SKIP PAST LAST ROW
  PATTERN (A B) WITHIN INTERVAL '1' SECOND
  DEFINE A AS A.price < 20, B AS B.price > 480) AS m;
