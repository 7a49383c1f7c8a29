-- Bids with a name from a small table that is looked up.
SELECT b.auction, b.bidder, b.price, b.`dateTime`, s.`value`
FROM bid_keyed AS b
JOIN side_input FOR SYSTEM_TIME AS OF b.p_time AS s ON b.side_key = s.key
