"""Penstock on Kubernetes: the manifests of a cluster, and its upgrade."""
