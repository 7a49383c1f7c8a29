"""Checkpoints and savepoints of a job: their failures, statistics and files."""
