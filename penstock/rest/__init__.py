"""The REST API of the jobs of a process, with Flink's paths and JSON, and its client."""
