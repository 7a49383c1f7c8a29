"""Session mode: the JobManager process that takes jobs from clients and runs them."""
