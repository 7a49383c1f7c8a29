"""The only package that imports pyspark: session, pipe, drivers."""
