"""Tests of the ladder of plans."""
