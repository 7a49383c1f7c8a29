"""Databases: sinks, sources and lookups over Python drivers, with the names of Flink's JDBC connector."""
