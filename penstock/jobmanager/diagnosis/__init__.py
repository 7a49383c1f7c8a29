"""The diagnosis of a running job: from metrics to findings. Pure, except for `gathering`."""
