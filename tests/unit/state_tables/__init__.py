"""Tests of state as tables."""
