"""The drivers of epoch mode and pipelined mode: each runs one plan of a job from checkpoint to checkpoint."""
