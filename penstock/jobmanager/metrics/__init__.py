"""The metrics of a job: from reports of subtasks and from completed checkpoints."""
