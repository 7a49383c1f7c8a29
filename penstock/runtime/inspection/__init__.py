"""Inspection of a running slot: stack samples, thread dumps, log lines, frequent keys."""
