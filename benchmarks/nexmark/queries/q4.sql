-- The mean of the winning bids of each category.
SELECT category, AVG(final) AS mean
FROM (
  SELECT MAX(b.price) AS final, a.category
  FROM auction AS a
  JOIN bid AS b ON a.id = b.auction AND b.`dateTime` BETWEEN a.`dateTime` AND a.expires
  GROUP BY a.id, a.category
)
GROUP BY category
