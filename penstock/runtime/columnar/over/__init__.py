"""OVER: values that functions have for the rows around a row."""
