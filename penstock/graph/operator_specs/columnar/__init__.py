"""Specs of the operators of a table's plan: frozen descriptions, made by the planner and sent to tasks.

All of them take and give ColumnBatches. Columns are known by position: `InputRef.index`, and plain numbers in fields such as `keys`. `input_types` are the
types of all columns of the input. An operator with `keys` gets its input hash partitioned by them; without keys it runs with parallelism 1 (global aggregates,
ORDER BY ... LIMIT) and the empty tuple is its key.

Where `update_before` is False, no downstream operator needs -U rows: they are dropped, and an update is a single +U row.
"""
