"""Flink's own clients for tests: its command line and its web page, out of apache-flink-libraries."""

from __future__ import annotations

import mimetypes
import os
import subprocess
import zipfile
from functools import cached_property
from http import HTTPStatus
from pathlib import Path

import pytest

from penstock.rest.messages import HttpError, Response
from penstock.rest.resources import ROUTES, page
from penstock.rest.routing.routes import Role, Route

_ROOT = Path(__file__).parents[2]
_PLACES = (
    os.environ.get("PENSTOCK_FLINK_HOME", ""),
    str(_ROOT / ".venv" / "servers" / "flink" / "pyflink"),
)
_CLIENT = "org.apache.flink.client.cli.CliFrontend"


def flink_home() -> FlinkHome:
    """Return Flink; a test that needs it where it is not installed says so."""
    for place in filter(None, _PLACES):
        if list(Path(place, "lib").glob("flink-dist-*.jar")):
            return FlinkHome(Path(place))
    missing = "apache-flink-libraries is not installed (tools/install_servers.sh)"
    if os.environ.get("CI"):
        pytest.fail(missing)
    pytest.skip(missing)


class FlinkHome:
    """An installation of Flink, of which only the clients are used."""

    def __init__(self, home: Path) -> None:
        self._home = home

    @cached_property
    def _jar(self) -> zipfile.ZipFile:
        (jar,) = self._home.glob("lib/flink-dist-*.jar")
        return zipfile.ZipFile(jar)

    def run(self, directory: Path, *arguments: str, token: str) -> str:
        """Run Flink's command line and return what it prints; `directory` is for its configuration."""
        (directory / "config.yaml").write_text("client.timeout: 60 s\n")
        java = Path(os.environ.get("JAVA_HOME") or (_ROOT / ".venv/java_home").read_text().strip())
        libraries = [*self._home.glob("lib/flink-dist-*.jar"), *self._home.glob("lib/log4j-*.jar")]
        ran = subprocess.run(
            [
                str(java / "bin" / "java"), "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto",
                "-cp", os.pathsep.join(map(str, libraries)), _CLIENT, *arguments,
            ],
            env={
                **os.environ,
                "FLINK_CONF_DIR": str(directory),
                # Flink's own way to send a header with every request
                "FLINK_REST_CLIENT_HEADERS": f"Authorization:Bearer {token}",
            },
            capture_output=True, text=True, check=False, timeout=180,
        )  # fmt: skip
        assert ran.returncode == 0, f"{ran.stdout}\n{ran.stderr}"
        return ran.stdout

    def page_routes(self) -> list[Route]:
        """Return the routes of our API with Flink's page in the place of ours."""
        api = [route for route in ROUTES if route not in page.ROUTES]
        return [*api, Route("GET", "/*file", self._file, "Flink's page", role=Role.OPEN)]

    def _file(self, _services, request):
        name = request.parameters["file"] or "index.html"
        try:
            content = self._jar.read(f"web/{name}")
        except KeyError:
            raise HttpError(HTTPStatus.NOT_FOUND, f"Flink's page has no file {name}") from None
        kind = mimetypes.guess_type(name)[0] or "application/octet-stream"
        return Response(content, media_type=kind)
