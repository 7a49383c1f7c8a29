-- How many bids does a bidder make without a pause of ten seconds?
SELECT bidder, COUNT(*) AS bids, window_start AS starttime, window_end AS endtime
FROM TABLE(SESSION(TABLE bid PARTITION BY bidder, DESCRIPTOR(`dateTime`), INTERVAL '10' SECOND))
GROUP BY bidder, window_start, window_end
