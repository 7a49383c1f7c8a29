"""`jdbc`: tables of databases, read, written and looked up."""
