"""Pickles of programs and values: with classes by value, and read by any worker."""
