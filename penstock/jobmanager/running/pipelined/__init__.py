"""Pipelined mode: long-running tasks exchange records, and checkpoints are triggered in them."""
