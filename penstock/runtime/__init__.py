"""The runtime of tasks: everything that runs inside a Spark task. Imports neither pyspark nor the API packages."""
