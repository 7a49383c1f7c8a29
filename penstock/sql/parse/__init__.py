"""Flink's SQL as text: tokens, parser, statements."""
