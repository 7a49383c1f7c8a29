"""The columnar engine: batches of columns, expressions compiled for Polars, and the operators of tables.

Operators of this package run in the same subtasks, with the same state backends, exchanges and checkpoints as those of streams.
"""
