"""Nexmark: people, auctions and bids of an auction house, and the queries q0 to q23 over them."""
