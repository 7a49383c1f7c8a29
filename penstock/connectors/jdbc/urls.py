"""Database URLs: those of JDBC, libpq and SQLAlchemy.

PostgreSQL uses psycopg, every other database SQLAlchemy Core.
"""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from penstock.errors import ArgumentError, ArgumentTypeError

_log = logging.getLogger("penstock.connectors.jdbc")

# pgjdbc's name of a setting -> libpq's name.
_LIBPQ = {
    "user": "user",
    "password": "password",
    "sslmode": "sslmode",
    "sslrootcert": "sslrootcert",
    "sslcert": "sslcert",
    "sslkey": "sslkey",
    "sslpassword": "sslpassword",
    "ApplicationName": "application_name",
    "connectTimeout": "connect_timeout",
    "loginTimeout": "connect_timeout",
    "gssEncMode": "gssencmode",
    "channelBinding": "channel_binding",
    "options": "options",
    "service": "service",
}
_TARGETS = {
    "any": "any",
    "primary": "primary",
    "master": "primary",
    "secondary": "standby",
    "slave": "standby",
    "preferSecondary": "prefer-standby",
    "preferSlave": "prefer-standby",
    "preferPrimary": "any",
}
_DEFAULT_USER = {"mysql": "mysql+pymysql", "mariadb": "mysql+pymysql"}


@dataclass(frozen=True)
class JdbcDatabase:
    """A database: the driver's settings, and its name in messages (never with a password)."""

    kind: str  # "postgresql" or "sqlalchemy"
    name: str
    settings: dict[str, Any] = field(default_factory=dict, repr=False)  # of libpq
    url: str = field(default="", repr=False)  # of SQLAlchemy


def parse_url(url: str, user: str | None = None, password: str | None = None) -> JdbcDatabase:
    """Parse a URL; user and password, if given, override those of the URL.

    >>> parse_url("jdbc:postgresql://db.example.com/shop?user=me&currentSchema=sales").name
    'postgresql://db.example.com:5432/shop'
    >>> parse_url("jdbc:sqlite:/tmp/a.db").url
    'sqlite:////tmp/a.db'
    """
    if not isinstance(url, str):
        raise ArgumentTypeError("the URL of a database is not a str", detail=f"got {url!r}")
    text = url.strip()
    if text.startswith("jdbc:postgresql:"):
        return _pgjdbc(text.removeprefix("jdbc:"), user, password)
    if re.match(r"postgres(ql)?(\+psycopg)?://", text):
        return _libpq(text, user, password)
    if text.startswith("jdbc:"):
        text = _from_jdbc(text)
    if not re.match(r"[a-z][a-z0-9_]*(\+[a-z0-9_]+)?://", text):
        raise ArgumentError(
            "invalid URL of a database",
            detail=f"got '{_without_password(url)}'",
            hint="use for example jdbc:postgresql://host:5432/database, or a URL of SQLAlchemy: sqlite:////path/to/file.db",
        )
    return _sqlalchemy(text, user, password)


def _pgjdbc(text: str, user: str | None, password: str | None) -> JdbcDatabase:
    rest, _, query = text.removeprefix("postgresql:").partition("?")
    hosts, database = "localhost", rest
    if rest.startswith("//"):
        hosts, _, database = rest[2:].partition("/")
    settings: dict[str, Any] = {}
    names, ports = [], []
    for each in hosts.split(","):
        host, port = _host_and_port(each, text)
        names.append(host)
        ports.append(port)
    settings["host"], settings["port"] = ",".join(names), ",".join(ports)
    search_path = None
    for name, value in parse_qsl(query, keep_blank_values=True):
        if name in _LIBPQ:
            settings[_LIBPQ[name]] = value
        elif name == "currentSchema":
            search_path = value
        elif name == "ssl":
            if value.lower() in {"", "true"}:
                settings.setdefault("sslmode", "verify-full")
        elif name == "targetServerType" and value in _TARGETS:
            settings["target_session_attrs"] = _TARGETS[value]
        elif name == "tcpKeepAlive":
            settings["keepalives"] = "1" if value.lower() == "true" else "0"
        else:
            _log.info(
                "ignoring the setting %s of a database URL: psycopg does not support it", name
            )
    if search_path is not None:
        option = f"-csearch_path={search_path}".replace(" ", "\\ ")
        settings["options"] = f"{settings.get('options', '')} {option}".strip()
    account = user or settings.get("user")
    settings["dbname"] = unquote(database.strip("/")) or account or "postgres"
    return _postgres(settings, user, password)


def _host_and_port(text: str, url: str) -> tuple[str, str]:
    match = re.fullmatch(r"(\[[^]]*\]|[^:]*)(?::(\d*))?", text)
    if match is None:
        raise ArgumentError(
            "invalid URL of a database",
            detail=f"'{_without_password(text)}' is not a host with a port, in '{_without_password(url)}'",
            hint="use for example jdbc:postgresql://host:5432/database; user and password are separate options",
        )
    return match[1].strip("[]") or "localhost", match[2] or "5432"


def _libpq(text: str, user: str | None, password: str | None) -> JdbcDatabase:
    parts = urlsplit("postgresql://" + text.partition("://")[2])
    settings: dict[str, Any] = dict(parse_qsl(parts.query, keep_blank_values=True))
    account, _, hosts = parts.netloc.rpartition("@")
    if account:
        name, _, secret = account.partition(":")
        settings["user"] = unquote(name)
        if secret:
            settings["password"] = unquote(secret)
    pairs = [_host_and_port(unquote(each), text) for each in hosts.split(",")]
    settings.setdefault("host", ",".join(host for host, _ in pairs))
    settings.setdefault("port", ",".join(port for _, port in pairs))
    named = unquote(parts.path.strip("/"))
    if named or "dbname" not in settings:
        settings["dbname"] = named or user or settings.get("user") or "postgres"
    return _postgres(settings, user, password)


def _postgres(settings: dict[str, Any], user: str | None, password: str | None) -> JdbcDatabase:
    if user is not None:
        settings["user"] = user
    if password is not None:
        settings["password"] = password
    hosts = zip(str(settings["host"]).split(","), str(settings["port"]).split(","), strict=False)
    where = ",".join(f"{host}:{port}" for host, port in hosts)
    return JdbcDatabase("postgresql", f"postgresql://{where}/{settings['dbname']}", settings)


def _from_jdbc(text: str) -> str:
    """Return the SQLAlchemy URL for a JDBC URL, for databases where they correspond."""
    kind, _, rest = text.removeprefix("jdbc:").partition(":")
    kind = kind.partition("?")[0]
    if kind == "sqlite":
        return f"sqlite:///{rest}"
    if kind in _DEFAULT_USER and rest.startswith("//"):
        return f"{_DEFAULT_USER[kind]}:{rest.partition('?')[0]}"
    raise ArgumentError(
        f"JDBC URLs of {kind} are not supported",
        detail=f"got '{_without_password(text)}'",
        hint="use a URL of SQLAlchemy, with a Python driver: oracle+oracledb://..., mssql+pyodbc://...",
    )


def _sqlalchemy(text: str, user: str | None, password: str | None) -> JdbcDatabase:
    scheme, _, rest = text.partition("://")
    account, at, place = rest.partition("/")[0].rpartition("@")
    path = rest[len(account) + len(at) + len(place) :]
    name, _, secret = account.partition(":")
    if user is not None:
        name = quote(user, safe="")
    if password is not None:
        secret = quote(password, safe="")
    login = name + (f":{secret}" if secret else "")
    full = f"{scheme}://{login}{'@' if login else ''}{place}{path}"
    return JdbcDatabase("sqlalchemy", f"{scheme}://{place}{path.partition('?')[0]}", url=full)


def _without_password(url: str) -> str:
    hidden = re.sub(r"(?<=:)[^:/@]*(?=@)", "***", url)
    return re.sub(r"(?i)(password=)[^&]*", r"\1***", hidden)
