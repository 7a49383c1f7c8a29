"""The JobMaster of a job: its state machine, its messages and its execution."""
