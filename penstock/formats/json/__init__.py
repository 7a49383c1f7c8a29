"""JSON, as lines of files and as messages."""
