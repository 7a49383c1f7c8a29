"""Python functions as sinks."""
