-- Which auctions had the most bids in the last ten seconds, every two seconds?
SELECT counts.auction, counts.num
FROM (
  SELECT auction, COUNT(*) AS num, window_start, window_end
  FROM TABLE(HOP(TABLE bid, DESCRIPTOR(`dateTime`), INTERVAL '2' SECOND, INTERVAL '10' SECOND))
  GROUP BY auction, window_start, window_end
) AS counts
JOIN (
  SELECT MAX(num) AS most, window_start, window_end
  FROM (
    SELECT COUNT(*) AS num, window_start, window_end
    FROM TABLE(HOP(TABLE bid, DESCRIPTOR(`dateTime`), INTERVAL '2' SECOND, INTERVAL '10' SECOND))
    GROUP BY auction, window_start, window_end
  )
  GROUP BY window_start, window_end
) AS top
ON counts.window_start = top.window_start AND counts.window_end = top.window_end
WHERE counts.num >= top.most
