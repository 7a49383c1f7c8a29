"""Epoch mode: one run of the pipe after another, each ending in a checkpoint."""
