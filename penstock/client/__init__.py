"""Executors: a program becomes a job in this process, with Spark or without it, or in a session."""
