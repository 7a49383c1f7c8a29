"""The logical plan of a query: nodes, and how a parsed query becomes them."""
