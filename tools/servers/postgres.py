"""A PostgreSQL server of Debian's package."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path

import psutil

from tools.servers.process import MissingServerError, ServerProcess

USER = "penstock"
PASSWORD = "wehr"


class PostgresServer(ServerProcess):
    """PostgreSQL with logical replication and prepared transactions, on a free port of the loopback address.

    `settings` are more of postgresql.conf, or others. With `fsync` a commit waits for the disk; a kill of the server does not need that, for what
    it wrote (and that a commit does wait for) is with the operating system.
    """

    name = "postgres"
    stop_signal = signal.SIGINT  # clients are sent away, not waited for

    def __init__(
        self, *, fsync: bool = False, settings: Mapping[str, str | int] | None = None
    ) -> None:
        self._bin = _binaries()
        super().__init__()
        self._settings = {
            "listen_addresses": "127.0.0.1",
            "port": self.port,
            "unix_socket_directories": "",
            "wal_level": "logical",
            "max_prepared_transactions": 64,
            "max_replication_slots": 32,
            "max_wal_senders": 32,
            "max_connections": 200,
            "shared_buffers": "64MB",
            "timezone": "UTC",
            "fsync": "on" if fsync else "off",
            "full_page_writes": "on" if fsync else "off",
            **(settings or {}),
        }
        self._databases = count(1)

    def command(self) -> Sequence[str]:
        """Return postgres itself, as a user who is not root."""
        return [*self._as_user(), str(self._bin / "postgres"), "-D", str(self._data)]

    def prepare(self) -> None:
        """Make the cluster and its configuration."""
        if self._as_user():
            shutil.chown(self.directory, _unprivileged(), _unprivileged_group())
        version = int((self._bin / "initdb").stat().st_mtime)
        template = _templates() / f"{self._bin.parent.name}-{version}-{os.geteuid()}"
        if template.exists():
            self._copy(template, self._data)
        else:
            self._make_cluster()
            self._keep(template)
        lines = [f"{name} = '{value}'\n" for name, value in self._settings.items()]
        (self._data / "penstock.conf").write_text("".join(lines))
        with (self._data / "postgresql.conf").open("a") as configuration:
            configuration.write("include 'penstock.conf'\n")
        (self._data / "penstock.conf").chmod(0o644)

    def _make_cluster(self) -> None:
        secret = self.directory / "password"
        secret.write_text(PASSWORD)
        if self._as_user():
            shutil.chown(secret, _unprivileged(), _unprivileged_group())
        options = f"-U {USER} -A scram-sha-256 -E UTF8 --locale=C -N".split()
        files = ["-D", str(self._data), "--pwfile", str(secret)]
        made = subprocess.run(
            [*self._as_user(), str(self._bin / "initdb"), *files, *options],
            capture_output=True,
            text=True,
            check=False,
            cwd=self.directory,
        )
        if made.returncode:
            raise RuntimeError(f"initdb failed:\n{made.stdout}{made.stderr}")

    def _keep(self, template: Path) -> None:
        """Keep an unused cluster: the next one is a copy, which takes a tenth of the time."""
        template.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=template.parent) as directory:
            made = Path(directory) / "data"
            self._copy(self._data, made)
            try:
                made.rename(template)
            except OSError:  # another process was faster
                if not template.exists():
                    raise

    @staticmethod
    def _copy(source: Path, target: Path) -> None:
        subprocess.run(["cp", "-a", str(source), str(target)], check=True)

    def is_ready(self) -> bool:
        """Whether it takes connections: after a kill it recovers first."""
        asked = [str(self._bin / "pg_isready"), "-q", "-h", "127.0.0.1", "-p", str(self.port)]
        return subprocess.run(asked, check=False).returncode == 0

    def kill(self) -> None:
        """End it with all its processes at once, as a power cut would.

        Every process of PostgreSQL leads a group of its own. Those that outlive their parent for a moment would keep a new server from starting.
        """
        process = self._process
        if process is None or process.poll() is not None:
            return
        process.send_signal(signal.SIGSTOP)  # it forks no more
        children = psutil.Process(process.pid).children(recursive=True)
        for each in children:
            with suppress(psutil.NoSuchProcess):
                each.kill()
        super().kill()
        psutil.wait_procs(children, timeout=20)

    def close(self) -> None:
        """Kill it, because its last writes are not needed, and delete its data."""
        self.kill()
        super().close()

    def url(self, database: str = "postgres") -> str:
        """Return what psycopg and libpq connect to: `postgresql://user:password@host:port/database`."""
        return f"postgresql://{USER}:{PASSWORD}@127.0.0.1:{self.port}/{database}"

    @property
    def dsn(self) -> str:
        """The URL of the database that is always there."""
        return self.url()

    def new_database(self) -> str:
        """Make an empty database and return its URL."""
        import psycopg

        name = f"test_{next(self._databases)}"
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}")
        return self.url(name)

    @property
    def _data(self) -> Path:
        return self.directory / "data"

    @staticmethod
    def _as_user() -> list[str]:
        if os.geteuid() != 0:
            return []
        user = _unprivileged()
        return ["setpriv", f"--reuid={user}", f"--regid={_unprivileged_group()}", "--init-groups"]


def _templates() -> Path:
    """Return where clusters are kept that others are copied from: beside the other servers."""
    return Path(sys.prefix) / "servers" / "postgres"


def _binaries() -> Path:
    found = sorted(
        Path("/usr/lib/postgresql").glob("*/bin"), key=lambda each: int(each.parent.name)
    )
    for directory in reversed(found):
        if (directory / "initdb").exists():
            return directory
    on_path = shutil.which("initdb")
    if on_path:
        return Path(on_path).resolve().parent
    raise MissingServerError(
        "PostgreSQL is not installed: no initdb in /usr/lib/postgresql/*/bin, nor on the PATH; "
        "try: apt-get install postgresql"
    )


def _unprivileged() -> str:
    """Who runs the server in place of root, which PostgreSQL refuses."""
    with suppress(KeyError):
        return pwd.getpwnam("postgres").pw_name
    return "nobody"


def _unprivileged_group() -> int:
    return pwd.getpwnam(_unprivileged()).pw_gid
