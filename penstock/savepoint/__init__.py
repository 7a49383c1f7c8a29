"""Savepoints: state in an open format, in one directory, independent of parallelism, backend and location."""
