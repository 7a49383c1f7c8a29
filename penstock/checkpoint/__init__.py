"""Checkpoints: storage, manifests, leases, and the checkpoint coordinator."""
