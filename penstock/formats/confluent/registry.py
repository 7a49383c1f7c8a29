"""A client for schema registries with Confluent's REST API, with a cache and retries."""

from __future__ import annotations

import base64
import enum
import json
import ssl
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from penstock.connectors.base.retrying import Backoff, retry
from penstock.errors import (
    ArgumentError,
    ArgumentTypeError,
    PenstockError,
    RecordError,
    SuppressRestartsError,
)

_CONTENT = "application/vnd.schemaregistry.v1+json"
_TRY_AGAIN = frozenset({408, 425, 429, 500, 502, 503, 504})
_UNKNOWN_FOR = 5.0  # seconds for which an unknown id is not requested again
_CONFIGS = {
    "basic.auth.user.info": "auth",
    "bearer.auth.token": "token",
    "ssl.ca.location": "ca_file",
    "ssl.certificate.location": "cert_file",
    "ssl.key.location": "key_file",
}


class SchemaRegistryError(PenstockError, RuntimeError):
    """A schema registry did not answer or rejected a request. The message being processed is not the cause.

    `status` is the HTTP status, `code` the registry's own error code; None without a response.
    """

    status: int | None = None
    code: int | None = None


class SchemaRefusedError(SchemaRegistryError, SuppressRestartsError):
    """A schema registry rejects the credentials or a schema: retrying does not help."""


class SubjectNameStrategy(enum.Enum):
    """How the subject of a schema is named, as in Confluent's serializers.

    >>> SubjectNameStrategy.TOPIC_NAME.subject(topic="orders")
    'orders-value'
    >>> SubjectNameStrategy.TOPIC_RECORD_NAME.subject(topic="orders", record="shop.Order")
    'orders-shop.Order'
    """

    TOPIC_NAME = "TopicNameStrategy"
    RECORD_NAME = "RecordNameStrategy"
    TOPIC_RECORD_NAME = "TopicRecordNameStrategy"

    def subject(self, *, topic: str = "", record: str = "", is_key: bool = False) -> str:
        """Return the subject for a topic, a record's full name, or both."""
        if not topic and self is not SubjectNameStrategy.RECORD_NAME:
            raise ArgumentError(f"{self.value} needs a topic")
        if not record and self is not SubjectNameStrategy.TOPIC_NAME:
            raise ArgumentError(f"{self.value} needs the name of a record")
        if self is SubjectNameStrategy.TOPIC_NAME:
            return f"{topic}-{'key' if is_key else 'value'}"
        return record if self is SubjectNameStrategy.RECORD_NAME else f"{topic}-{record}"


@dataclass(frozen=True, slots=True)
class SchemaReference:
    """A reference of a schema to another one: its name, and its subject and version."""

    name: str
    subject: str
    version: int


@dataclass(frozen=True, slots=True)
class RegisteredSchema:
    """A schema in a registry: "AVRO", "PROTOBUF" or "JSON", its text, and its references."""

    text: str
    kind: str = "AVRO"
    references: tuple[SchemaReference, ...] = ()

    def body(self) -> dict[str, Any]:
        """Return the request body."""
        sent: dict[str, Any] = {"schema": self.text}
        if self.kind != "AVRO":  # old registries support no other
            sent["schemaType"] = self.kind
        if self.references:
            sent["references"] = [
                {"name": each.name, "subject": each.subject, "version": each.version}
                for each in self.references
            ]
        return sent


class SchemaRegistry:
    """Looks up and registers schemas. Schemas never change, so each is requested once.

    `url` is one or several addresses, tried in order. `auth` is (user, password); it may be in the URL as well. Requests to a
    registry that does not answer are retried for about `patience` seconds; then the job fails, and its restart strategy applies.
    """

    def __init__(
        self,
        url: str | Sequence[str],
        *,
        auth: tuple[str, str] | str | None = None,
        token: str | None = None,
        headers: Mapping[str, str] | None = None,
        ca_file: str | None = None,
        cert_file: str | None = None,
        key_file: str | None = None,
        timeout: float = 10.0,
        patience: float = 30.0,
    ) -> None:
        given = [each.strip() for each in url.split(",")] if isinstance(url, str) else list(url)
        self._addresses = [_Address.of(each) for each in given]
        if not self._addresses:
            raise ArgumentError("a schema registry needs a URL")
        if isinstance(auth, str):
            user, colon, password = auth.partition(":")
            if not colon:
                raise ArgumentError("the registry's user info must be user:password")
            auth = (user, password)
        if auth is not None and token is not None:
            raise ArgumentError("auth and token of a schema registry are mutually exclusive")
        if timeout <= 0 or patience < 0:
            raise ArgumentError("timeout must be positive and patience must not be negative")
        self._headers = {"Accept": f"{_CONTENT}, application/json", **(headers or {})}
        if auth is not None:
            self._headers["Authorization"] = _basic(*auth)
        elif token is not None:
            self._headers["Authorization"] = f"Bearer {token}"
        self._tls = (ca_file, cert_file, key_file)
        self._timeout = timeout
        self._patience = patience
        self._forget()

    @staticmethod
    def of(registry: Any, configs: Mapping[str, str] | None = None) -> SchemaRegistry:
        """Return a SchemaRegistry, or create one from a URL with Confluent's settings ("basic.auth.user.info", ...)."""
        if isinstance(registry, SchemaRegistry):
            if configs:
                raise ArgumentError(
                    "configs can only be used with a URL, not with a SchemaRegistry"
                )
            return registry
        if not isinstance(registry, str):
            raise ArgumentTypeError(
                "the registry is neither a URL nor a SchemaRegistry", detail=f"got {registry!r}"
            )
        ignored = {"basic.auth.credentials.source", "bearer.auth.credentials.source"}
        settings: dict[str, Any] = {}
        for name, value in (configs or {}).items():
            if name in _CONFIGS:
                settings[_CONFIGS[name]] = value
            elif name not in ignored:
                raise ArgumentError(
                    "unknown setting of a schema registry",
                    detail=f"setting {name!r}",
                    hint=f"use one of {', '.join(_CONFIGS)}, or create a SchemaRegistry(...)",
                )
        return SchemaRegistry(registry, **settings)

    def schema(self, schema_id: int) -> RegisteredSchema:
        """Return the schema with an id; raise a RecordError for an unknown one: the message with this id is malformed then."""
        found = self._by_id.get(schema_id)
        if found is not None:
            return found
        with self._lock:
            since = self._unknown.get(schema_id)
            if since is None or time.monotonic() - since > _UNKNOWN_FOR:
                try:
                    answer = self._ask("GET", f"/schemas/ids/{schema_id}")
                except SchemaRegistryError as error:
                    if error.status != 404:
                        raise
                    self._unknown[schema_id] = time.monotonic()
                else:
                    self._by_id[schema_id] = found = _registered(answer)
                    return found
        raise RecordError(
            f"the schema registry has no schema with the id {schema_id}",
            detail=f"registry: {self}",
            hint="check that the message was written with this registry, in Confluent's wire format",
        )

    def register(self, subject: str, schema: RegisteredSchema) -> int:
        """Register a schema, if it is not registered, and return its id."""
        return self._id_of(subject, schema, f"/subjects/{_quoted(subject)}/versions")

    def lookup(self, subject: str, schema: RegisteredSchema) -> int:
        """Return the id of a registered schema."""
        return self._id_of(subject, schema, f"/subjects/{_quoted(subject)}")

    def version(
        self, subject: str, version: int | str = "latest"
    ) -> tuple[int, int, RegisteredSchema]:
        """Return id, version and schema of a subject's version."""
        answer = self._ask("GET", f"/subjects/{_quoted(subject)}/versions/{version}")
        return int(answer["id"]), int(answer["version"]), _registered(answer)

    def version_of(self, subject: str, schema: RegisteredSchema) -> int:
        """Return the version of a registered schema in a subject."""
        return int(self._ask("POST", f"/subjects/{_quoted(subject)}", schema.body())["version"])

    def _id_of(self, subject: str, schema: RegisteredSchema, path: str) -> int:
        key = (path, schema)
        with self._lock:
            if key not in self._ids:
                try:
                    self._ids[key] = int(self._ask("POST", path, schema.body())["id"])
                except SchemaRegistryError as error:
                    raise _of_subject(error, subject) from error
            return self._ids[key]

    def _ask(self, method: str, path: str, body: object = None) -> Any:
        """Send a request, with retries until `patience` is over."""
        # Each pause has half to all of its length: 100 ms, then twice as long each time, up to 2 s.
        backoff = Backoff(75, 1500, within_ms=self._patience * 1000, jitter=1 / 3)
        return retry(
            lambda: self._ask_each(method, path, body),
            backoff.pauses(time.monotonic()),
            when=_may_pass,
        )

    def _ask_each(self, method: str, path: str, body: object) -> object:
        """Send a request to one address after the other, until one answers."""
        for address in self._addresses[:-1]:
            try:
                return self._send(address, method, path, body)
            except SchemaRegistryError as error:
                if not _may_pass(error):
                    raise
        return self._send(self._addresses[-1], method, path, body)

    def _send(self, address: _Address, method: str, path: str, body: object) -> Any:
        data = None if body is None else json.dumps(body).encode("utf-8")
        headers = {**address.headers, **self._headers}
        if data is not None:
            headers["Content-Type"] = _CONTENT
        request = urllib.request.Request(  # noqa: S310 - the scheme was checked
            address.url + path, data, headers, method=method
        )
        context = self._tls_context() if address.url.startswith("https") else None
        try:
            with urllib.request.urlopen(  # noqa: S310 - as above
                request, timeout=self._timeout, context=context
            ) as response:
                return json.loads(response.read())
        except urllib.error.HTTPError as error:
            raise _refused(error, method, address.url + path) from None
        except (
            OSError,
            ValueError,
        ) as error:  # no connection, no response, or one that is not JSON
            raise SchemaRegistryError(
                "a schema registry did not answer",
                detail=f"{method} {address.url}{path}: {getattr(error, 'reason', error)}",
                hint="check that it is running, and its address",
            ) from error

    def _tls_context(self) -> ssl.SSLContext:
        ca_file, cert_file, key_file = self._tls
        context = ssl.create_default_context(cafile=ca_file)
        if cert_file is not None:
            context.load_cert_chain(cert_file, key_file)
        return context

    def _forget(self) -> None:
        self._by_id: dict[int, RegisteredSchema] = {}
        self._ids: dict[tuple[str, RegisteredSchema], int] = {}
        self._unknown: dict[int, float] = {}
        self._lock = threading.RLock()

    def __getstate__(self) -> dict[str, Any]:
        kept = ("_addresses", "_headers", "_tls", "_timeout", "_patience")
        return {name: self.__dict__[name] for name in kept}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._forget()

    def __repr__(self) -> str:
        return f"SchemaRegistry({', '.join(each.url for each in self._addresses)})"


@dataclass(frozen=True, slots=True)
class _Address:
    """The address of a registry, without the password that the URL may contain."""

    url: str
    headers: dict[str, str]

    @classmethod
    def of(cls, url: str) -> _Address:
        parts = urllib.parse.urlsplit(url)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            shown = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
            raise ArgumentError(
                "invalid URL of a schema registry",
                detail=f"got {shown!r}",
                hint="use a URL such as http://localhost:8081",
            )
        headers = {}
        if parts.username is not None:
            user, password = map(urllib.parse.unquote, (parts.username, parts.password or ""))
            headers["Authorization"] = _basic(user, password)
        host = parts.netloc.rpartition("@")[2]
        return cls(f"{parts.scheme}://{host}{parts.path.rstrip('/')}", headers)


def _may_pass(error: Exception) -> bool:
    """Whether there was no answer, or one that says to try again."""
    if not isinstance(error, SchemaRegistryError):
        return False
    return error.status is None or error.status in _TRY_AGAIN


def _basic(user: str, password: str) -> str:
    return f"Basic {base64.b64encode(f'{user}:{password}'.encode()).decode('ascii')}"


def _quoted(subject: str) -> str:
    return urllib.parse.quote(subject, safe="")


def _registered(answer: Any) -> RegisteredSchema:
    references = tuple(
        SchemaReference(each["name"], each["subject"], int(each["version"]))
        for each in answer.get("references") or ()
    )
    return RegisteredSchema(answer["schema"], answer.get("schemaType") or "AVRO", references)


def _refused(error: urllib.error.HTTPError, method: str, url: str) -> SchemaRegistryError:
    text = error.read()[:2000].decode("utf-8", "replace")
    code = None
    try:
        answer = json.loads(text)
        code, text = int(answer["error_code"]), str(answer["message"])
    except (ValueError, KeyError, TypeError):
        pass  # the response is not from the registry itself
    hints = {
        401: "pass auth=(user, password) or token=...",
        403: "the user is not authorized for this",
        409: "the subject's compatibility level does not allow this schema: change the schema, or the level",
    }
    kind = SchemaRefusedError if error.code in hints else SchemaRegistryError
    made = kind(
        f"a schema registry rejected a request: {text or error.reason}",
        detail=f"{method} {url}: HTTP {error.code}" + (f", error {code}" if code else ""),
        hint=hints.get(error.code),
    )
    made.status, made.code = error.code, code
    return made


def _of_subject(error: SchemaRegistryError, subject: str) -> SchemaRegistryError:
    made = type(error)(
        error.message, detail=f"subject {subject!r}, {error.detail}", hint=error.hint
    )
    made.status, made.code = error.status, error.code
    return made
