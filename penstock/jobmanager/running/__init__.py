"""Ways of running a job: each takes one plan of it from checkpoint to checkpoint. Today in epochs."""
