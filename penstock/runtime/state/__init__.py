"""Keyed and operator state."""
