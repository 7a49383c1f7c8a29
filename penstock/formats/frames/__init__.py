"""Files that are read and written in columns, as polars.DataFrames: what the formats share."""
