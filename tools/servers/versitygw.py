"""An S3 server, versitygw, with objects as files below a directory. It has conditional writes."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from tools.servers.process import MissingServerError, ServerProcess

PROGRAM = Path(sys.prefix) / "servers" / "versitygw" / "versitygw"
KEY, SECRET, REGION = "penstock", "very-secret", "us-east-1"


class S3GatewayServer(ServerProcess):
    """A server with one user and one bucket, on a free port of the loopback address."""

    name = "versitygw"
    bucket = "streams"

    def __init__(self) -> None:
        if not PROGRAM.exists():
            raise MissingServerError(
                "versitygw is not installed: run tools/install_servers.sh clusters"
            )
        super().__init__()

    def command(self) -> Sequence[str]:
        """Return the command line."""
        user = ["--access", KEY, "--secret", SECRET, "--region", REGION]
        where = ["--port", f"127.0.0.1:{self.port}", "--quiet"]
        return [str(PROGRAM), *user, *where, "posix", "--sidecar", *map(str, self._places)]

    def prepare(self) -> None:
        """Make the bucket: a directory."""
        for place in self._places:
            place.mkdir(parents=True)
        (self._places[1] / self.bucket).mkdir()

    def uri(self, path: str = "") -> str:
        """Return the URI of an object of the bucket."""
        options = f"endpoint_override=127.0.0.1:{self.port}&scheme=http&region={REGION}"
        return f"s3://{self.bucket}/{path}?{options}"

    @property
    def credentials(self) -> dict[str, str]:
        """What processes need to use it."""
        return {
            "AWS_ACCESS_KEY_ID": KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_EC2_METADATA_DISABLED": "true",
        }

    @property
    def _places(self) -> tuple[Path, Path]:
        """Where it keeps what it knows of objects, and the objects."""
        return self.directory / "metadata", self.directory / "objects"
