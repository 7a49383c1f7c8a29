"""Execution of statements, one kind per module."""
