"""Slots in epoch mode: the body of a Spark task, which runs one level of one epoch."""
