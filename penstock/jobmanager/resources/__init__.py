"""The ResourceManager: the slots of a cluster, and which job holds how many of them."""
