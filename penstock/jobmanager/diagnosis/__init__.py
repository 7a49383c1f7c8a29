"""A diagnosis of a running job: figures in, findings out. Pure, but for `gathering`."""
