"""The Table API in terms of SQL: expressions, streams and Python objects as parts of statements and plans."""
