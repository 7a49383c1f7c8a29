"""The operators that run inside a subtask, one family per module."""
