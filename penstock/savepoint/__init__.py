"""Savepoints: state in an open format, in one directory, for any parallelism, backend and place."""
