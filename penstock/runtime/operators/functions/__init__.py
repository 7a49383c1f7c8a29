"""Operators that call a user's function for each record: map, filter, process, reduce, asynchronous calls."""
