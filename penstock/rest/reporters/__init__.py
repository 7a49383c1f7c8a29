"""Brings metrics to those who keep them: Prometheus, and whatever speaks OTLP."""
