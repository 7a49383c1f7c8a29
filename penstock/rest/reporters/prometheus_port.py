"""A separate port for Prometheus, as in Flink's reporter."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from penstock import options
from penstock.options.configuration import Configuration
from penstock.rest.ports import parse_ports
from penstock.rest.reporters.prometheus import expose
from penstock.rest.reporters.samples import MetricSample

_log = logging.getLogger(__name__)


class PrometheusReporter:
    """A separate port for Prometheus, which serves only metrics, without authentication."""

    def __init__(
        self, configuration: Configuration, gather: Callable[[], list[MetricSample]]
    ) -> None:
        filters = configuration.get(options.PROMETHEUS_FILTERS)

        class Handler(BaseHTTPRequestHandler):
            timeout = 30

            def do_GET(self) -> None:
                accepts = self.headers.get("Accept", "")
                content, media_type = expose(gather(), accepts, filters=filters)
                self.send_response(200)
                self.send_header("Content-Type", media_type)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, format: str, *args: object) -> None:
                _log.debug(format, *args)

        self._server = _listen(
            configuration.get(options.REST_BIND_ADDRESS),
            parse_ports(configuration.get(options.PROMETHEUS_PORT)),
            Handler,
        )
        self.port = int(self._server.server_address[1])
        # A fork would keep the port bound without a thread that answers.
        os.register_at_fork(after_in_child=self._server.socket.close)
        thread = threading.Thread(
            target=self._server.serve_forever, name="penstock-prometheus", daemon=True
        )
        thread.start()
        _log.info("metrics for Prometheus at port %d", self.port)

    def close(self) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._server.server_close()


def _listen(
    address: str, ports: tuple[int, ...], handler: type[BaseHTTPRequestHandler]
) -> ThreadingHTTPServer:
    """Return a server on the first free port."""
    for port in ports[:-1]:
        try:
            return _Server((address, port), handler)
        except OSError:
            continue
    return _Server((address, ports[-1]), handler)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
