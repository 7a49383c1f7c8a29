"""Databases: sinks, sources and lookups over Python's drivers, by the names of Flink's JDBC connector."""
