"""Slots in pipelined mode: the event loop, its tasks, and their checkpoints."""
