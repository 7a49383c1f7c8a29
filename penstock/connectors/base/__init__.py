"""The interfaces of sources and sinks, and parts that connectors share."""
