"""The ExecutionGraph: a job's vertices and subtasks as they run, their states and failures."""
