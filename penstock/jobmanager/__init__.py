"""The control plane of a job: its master, its restart strategy."""
