"""Real servers for tests, demos and benchmarks: on free ports, with their data in a temporary directory, stopped by the process that started them."""
