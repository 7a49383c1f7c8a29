"""A receiver of OTLP by http, as a process: prints each metric that it gets as a line of JSON, after the port that it listens at."""

from __future__ import annotations

import gzip
import json
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)


def _attributes(pairs):
    return {pair.key: pair.value.string_value for pair in pairs}


def _points(metric):
    data = getattr(metric, metric.WhichOneof("data"))
    for point in data.data_points:
        yield {
            "name": metric.name,
            "kind": metric.WhichOneof("data"),
            "monotonic": getattr(data, "is_monotonic", None),
            "attributes": _attributes(point.attributes),
            "value": getattr(point, point.WhichOneof("value")),
        }


class Handler(BaseHTTPRequestHandler):
    """Takes what is posted to /v1/metrics."""

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        request = ExportMetricsServiceRequest.FromString(body)
        assert self.path == "/v1/metrics", self.path
        for resource in request.resource_metrics:
            service = _attributes(resource.resource.attributes)
            for scope in resource.scope_metrics:
                for metric in scope.metrics:
                    for point in _points(metric):
                        print(json.dumps({**point, "service": service}))
        sys.stdout.flush()
        answer = ExportMetricsServiceResponse().SerializeToString()
        self.send_response(200)
        self.send_header("Content-Type", "application/x-protobuf")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_):
        """Say nothing."""


if __name__ == "__main__":
    server = HTTPServer(("127.0.0.1", 0), Handler)
    print(server.server_port, flush=True)
    server.serve_forever()
