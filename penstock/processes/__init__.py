"""This process: its temporary directories and its metrics."""
