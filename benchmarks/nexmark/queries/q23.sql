-- Bids of people who sell, too, with what they sell.
SELECT b.auction, b.bidder, b.price, b.channel, b.url, b.`dateTime`, b.extra,
  p.name, p.emailAddress, p.city, p.state, a.id, a.itemName, a.category
FROM bid AS b
JOIN person AS p ON p.id = b.bidder
JOIN auction AS a ON a.seller = b.bidder
