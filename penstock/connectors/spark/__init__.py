"""What jobs and Spark exchange: DataFrames as sources, results and checkpoints as DataFrames, data sources of PySpark."""
