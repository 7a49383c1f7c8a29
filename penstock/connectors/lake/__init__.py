"""Delta Lake and Iceberg tables. Tasks write data files, the driver adds those of a checkpoint to the table in one commit."""
