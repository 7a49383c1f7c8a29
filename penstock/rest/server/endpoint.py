"""The REST server of this process, its address, and the file through which the command line finds it."""

from __future__ import annotations

import logging
import os
import sys
import threading
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

from penstock import options
from penstock.options.configuration import Configuration
from penstock.rest import processes
from penstock.rest.ports import parse_ports
from penstock.rest.reporters.starting import Reporters
from penstock.rest.routing.routes import Services
from penstock.rest.security import tokens
from penstock.rest.security.access import SecuritySettings
from penstock.rest.security.tls import TlsSettings
from penstock.rest.server.limits import RequestLimits
from penstock.rest.server.rest_server import RestServer
from penstock.rest.services.web_settings import WebSettings

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Binding:
    """Where a server listens, and the address that clients use."""

    bind_address: str
    ports: tuple[int, ...]
    address: str | None
    security: SecuritySettings = field(default_factory=SecuritySettings)
    limits: RequestLimits = field(default_factory=RequestLimits)
    web: WebSettings = field(default_factory=WebSettings)

    @staticmethod
    def from_configuration(configuration: Configuration) -> Binding:
        """Read the options."""
        given = configuration.get(options.REST_BIND_PORT)
        ports = (configuration.get(options.REST_PORT),) if given is None else parse_ports(given)
        return Binding(
            configuration.get(options.REST_BIND_ADDRESS),
            ports,
            configuration.get(options.REST_ADDRESS),
            SecuritySettings.from_configuration(configuration),
            RequestLimits.from_configuration(configuration),
            WebSettings.from_configuration(configuration),
        )


class Endpoint:
    """The server of this process and its file in ~/.penstock/processes."""

    def __init__(self, program: str | None = None) -> None:
        self.services = Services()
        self.reporters = Reporters()
        self._program = program
        self.token = os.environ.get(tokens.TOKEN_VARIABLE) or tokens.create_token()
        self.server: RestServer | None = None
        self._file: Path | None = None
        self._closed = False
        self._registering = threading.Lock()  # so that no file is written after `close`

    def ensure_started(self, binding: Binding) -> None:
        """Start the server unless it runs. If no port is free, only log a warning."""
        if self.server is not None:
            return
        self.services.web = binding.web
        try:
            self.server = RestServer(
                self.services, self.token, bind_address=binding.bind_address,
                ports=binding.ports, address=binding.address, limits=binding.limits,
                security=binding.security,
            )  # fmt: skip
        except OSError as error:
            ports = ", ".join(map(str, binding.ports[:3])) + (", ..." if binding.ports[3:] else "")
            _log.warning(
                "cannot start the REST server at %s, port %s: %s; the job runs without it, and the command "
                "line cannot find it (set rest.port to another port, or to 0 for any free port)",
                binding.bind_address, ports, error.strerror or error,
            )  # fmt: skip
            return
        self.server.start()
        # A fork would keep the port bound without a thread that answers.
        os.register_at_fork(after_in_child=self.server.socket.close)
        self.token = self.server.access.write_token
        self._register(self.server, binding.security.tls)

    def base_address(self) -> str | None:
        """Return the address of the web page, without a token; None if there is no server."""
        if self.server is None:
            return None
        return f"{self.server.scheme}://{self.server.client_address}"

    def page_address(self) -> str | None:
        """Return the address of the web page, with the token; None if there is no server."""
        base = self.base_address()
        return None if base is None else f"{base}/#token={quote(self.token, safe='')}"

    def _register(self, server: RestServer, tls: TlsSettings | None) -> None:
        program = self._program or (sys.argv[0] if sys.argv else "")
        address = server.client_address if tls is None else f"https://{server.client_address}"
        record = processes.describe_this_process(
            address, self.token, program, None if tls is None else tls.certificate
        )
        try:
            with self._registering:
                if not self._closed:
                    self._file = processes.write(record)
        except OSError as error:
            _log.warning(
                "the command line finds the jobs of this process only with -m %s: cannot write to %s: %s",
                address, processes.directory(), error.strerror or error,
            )  # fmt: skip

    def close(self, timeout_s: float = 0.0) -> None:
        """Remove the file and wait for the responses in flight. The server itself ends with the process."""
        self.reporters.close()
        with self._registering:
            self._closed = True
            if self._file is not None:
                processes.remove(self._file)
        if self.server is not None:
            self.server.wait_until_idle(
                timeout_s
            )  # one of them may be the request that stopped the job
            self.services.operations.wait_until_fetched(timeout_s)
