"""Catalogs of tables, views and functions."""
