"""Options of metrics and their reporters."""

from __future__ import annotations

from penstock.options.config_options import ConfigOptions
from penstock.options.registry import describe
from penstock.time.durations import Duration

METRICS_REPORTERS = describe(
    ConfigOptions.key("metrics.reporters").string_type().default_value(""),
    "Comma-separated metric reporters, in addition to the REST API: prom, otel.",
)
PROMETHEUS_PORT = describe(
    ConfigOptions.key("metrics.reporter.prom.port").string_type().default_value("9249"),
    "Port for Prometheus, at the address of rest.bind-address: a port, or a range or list "
    "of which the first free one is used. Metrics are always at /metrics of the REST API, too.",
)
PROMETHEUS_FILTERS = describe(
    ConfigOptions.key("metrics.reporter.prom.filterLabelValueCharacters")
    .boolean_type()
    .default_value(True),
    "Whether characters other than letters, digits, : and _ in label values are replaced by _, as in Flink.",
)
_OTEL = "metrics.reporter.otel."
OTEL_ENDPOINT = describe(
    ConfigOptions.key(_OTEL + "exporter.endpoint").string_type().no_default_value(),
    "OTLP endpoint, such as http://localhost:4318. Default: OpenTelemetry's own environment "
    "variables.",
)
OTEL_PROTOCOL = describe(
    ConfigOptions.key(_OTEL + "exporter.protocol").string_type().default_value("http"),
    "OTLP protocol. Only http is supported.",
)
OTEL_TIMEOUT = describe(
    ConfigOptions.key(_OTEL + "exporter.timeout")
    .duration_type()
    .default_value(Duration.of_seconds(10)),
    "Timeout of an export.",
    minimum=1,
)
OTEL_INTERVAL = describe(
    ConfigOptions.key(_OTEL + "interval").duration_type().default_value(Duration.of_seconds(10)),
    "How often metrics are sent by OTLP.",
    minimum=1,
)
OTEL_SERVICE_NAME = describe(
    ConfigOptions.key(_OTEL + "service.name").string_type().default_value("penstock"),
    "The name of the service whose metrics are sent.",
)
OTEL_SERVICE_VERSION = describe(
    ConfigOptions.key(_OTEL + "service.version").string_type().no_default_value(),
    "The version of the service whose metrics are sent. Without it: Penstock's.",
)
