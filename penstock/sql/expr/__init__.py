"""Expressions of plans: typed trees, and the functions that they call."""
