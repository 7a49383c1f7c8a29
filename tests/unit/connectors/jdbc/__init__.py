"""Databases, as far as no server is needed."""
