"""Databases, against real servers."""
