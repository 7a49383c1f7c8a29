"""Metric reporters: Prometheus, and OpenTelemetry (OTLP)."""
