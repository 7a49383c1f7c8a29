"""Operators of sources and sinks, and of timestamps and watermarks."""
