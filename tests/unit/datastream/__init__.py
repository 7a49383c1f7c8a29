"""Tests of the DataStream API: what programs build, and what they are refused."""
