"""Flink's JSON of jobs, vertices and metrics. Pure functions."""
