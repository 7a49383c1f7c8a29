"""Session mode above the engine and the REST API: the JobManager process that takes jobs, and programs that are sent to it."""
