"""Consecutive numbers."""
