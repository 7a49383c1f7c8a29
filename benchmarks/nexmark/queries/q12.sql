-- How many bids does a bidder make within ten seconds of the clock on the wall?
SELECT bidder, COUNT(*) AS bids, window_start AS starttime, window_end AS endtime
FROM TABLE(TUMBLE(TABLE bid_now, DESCRIPTOR(p_time), INTERVAL '10' SECOND))
GROUP BY bidder, window_start, window_end
