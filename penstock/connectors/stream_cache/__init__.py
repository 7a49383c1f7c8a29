"""Cached streams: the files of `DataStream.cache()`."""
