"""Rules that change plans, one a module."""
