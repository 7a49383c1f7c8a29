"""Watermarks, timers, clocks."""
