"""A Prometheus server of Debian's package, which scrapes what it is told to."""

from __future__ import annotations

import json
import shutil
import urllib.parse
import urllib.request
from collections.abc import Sequence
from typing import Any

from tools.servers.process import MissingServerError, ServerProcess


class PrometheusServer(ServerProcess):
    """Prometheus on a free port of the loopback address; it asks one address (`host:port`) for its metrics, every second."""

    name = "prometheus"

    def __init__(self, target: str) -> None:
        self._program = shutil.which("prometheus")
        if self._program is None:
            raise MissingServerError(
                "Prometheus is not installed: no prometheus on the PATH; try: apt-get install prometheus"
            )
        super().__init__()
        self._target = target

    def prepare(self) -> None:
        """Write the configuration."""
        jobs = [{"job_name": "penstock", "static_configs": [{"targets": [self._target]}]}]
        settings = {"global": {"scrape_interval": "1s"}, "scrape_configs": jobs}
        (self.directory / "prometheus.yml").write_text(json.dumps(settings))  # which is YAML, too

    def command(self) -> Sequence[str]:
        """Return prometheus with its options."""
        assert self._program is not None
        return [
            self._program,
            f"--config.file={self.directory / 'prometheus.yml'}",
            f"--storage.tsdb.path={self.directory / 'data'}",
            f"--web.listen-address=127.0.0.1:{self.port}",
        ]

    def is_ready(self) -> bool:
        """Whether it answers queries."""
        try:
            with urllib.request.urlopen(f"{self._address}/-/ready", timeout=1) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    @property
    def _address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def query(self, expression: str) -> list[Any]:
        """Return what an expression of PromQL gives now; raise an HTTPError if it is wrong."""
        query = urllib.parse.urlencode({"query": expression})
        with urllib.request.urlopen(f"{self._address}/api/v1/query?{query}", timeout=10) as answer:
            found: list[Any] = json.load(answer)["data"]["result"]
        return found

    def series(self, label: str) -> list[str]:
        """Return all values of a label."""
        path = f"{self._address}/api/v1/label/{label}/values"
        with urllib.request.urlopen(path, timeout=10) as answer:
            found: list[str] = json.load(answer)["data"]
        return found
