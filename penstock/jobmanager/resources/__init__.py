"""The ResourceManager: the slots of a cluster, and their allocation to jobs."""
