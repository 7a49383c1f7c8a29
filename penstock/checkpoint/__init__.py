"""Checkpoints: their storage, their manifests, and the coordinator of the epoch protocol."""
