-- The mean price that a seller got for the last ten auctions.
SELECT seller, AVG(final) OVER (PARTITION BY seller ORDER BY `dateTime` ROWS BETWEEN 9 PRECEDING AND CURRENT ROW) AS mean
FROM (
  SELECT seller, final, `dateTime`
  FROM (
    SELECT a.seller, b.price AS final, b.`dateTime`,
      ROW_NUMBER() OVER (PARTITION BY a.id, a.seller ORDER BY b.price DESC, b.`dateTime` ASC) AS place
    FROM auction AS a
    JOIN bid AS b ON a.id = b.auction AND b.`dateTime` BETWEEN a.`dateTime` AND a.expires
  )
  WHERE place <= 1
)
