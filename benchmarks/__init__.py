"""Measurements of Penstock, alone and against PyFlink and Flink SQL on the same files."""
