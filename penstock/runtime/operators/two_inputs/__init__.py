"""Operators with two inputs: connected streams, broadcast state, interval joins."""
