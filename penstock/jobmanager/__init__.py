"""The control plane of a job: its JobMaster, restart strategy, checkpoints and resources."""
