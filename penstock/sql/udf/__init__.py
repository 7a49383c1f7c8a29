"""User-defined functions: base classes, and what calls them in tasks."""
