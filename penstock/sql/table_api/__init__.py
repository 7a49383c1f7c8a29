"""The Table API in terms of SQL: expressions, windows, schemas and functions as programs declare them."""
