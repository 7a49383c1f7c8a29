"""Bulk actions, and the emitter that creates them from records."""

from __future__ import annotations

import datetime as dt
import decimal
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from penstock.common.user_types import Record
from penstock.connectors.base.arguments import check_callable, check_one_of, check_text
from penstock.errors import RecordError

OPERATIONS = ("index", "create", "update", "delete")


@dataclass(frozen=True, slots=True)
class BulkAction:
    """One action of a bulk request: one or two lines.

    `index` writes a whole document, `update` merges it into the existing one or creates it, `create` writes it if it does not
    exist yet, `delete` needs no document. With an id each of them is idempotent; without one, `index` creates another document
    each time.
    """

    operation: str
    index: str
    id: str | None = None
    document: Mapping[str, Any] | None = None
    routing: str | None = None
    doc_type: str | None = None

    def __post_init__(self) -> None:
        check_one_of("operation", self.operation, OPERATIONS)
        check_text("index", self.index)
        if self.id is None and self.operation != "index":
            raise RecordError(f"bulk action '{self.operation}' needs an id")

    @property
    def target(self) -> tuple[str, str] | None:
        """The index and id of its document, None without an id."""
        return None if self.id is None else (self.index, self.id)

    def lines(self) -> bytes:
        r"""Return it as NDJSON.

        >>> BulkAction("update", "users", "7", {"name": "ada"}).lines()
        b'{"update":{"_index":"users","_id":"7"}}\n{"doc":{"name":"ada"},"doc_as_upsert":true}\n'
        """
        about = {
            "_index": self.index,
            "_type": self.doc_type,
            "_id": self.id,
            "routing": self.routing,
        }
        head = _json({self.operation: {name: value for name, value in about.items() if value}})
        if self.operation == "delete":
            return head + b"\n"
        document: Any = self.document or {}
        if self.operation == "update":
            document = {"doc": document, "doc_as_upsert": True}
        return head + b"\n" + _json(document) + b"\n"


Emit = Callable[[Any], Iterable[BulkAction]]


class ElasticsearchEmitter:
    """Creates bulk actions from records.

    Records of `static_index` and `dynamic_index` are dicts or Rows. With a key field, a record is merged into the document with
    that id, which is idempotent.
    """

    def __init__(self, emit: Callable[[Any], BulkAction | Iterable[BulkAction] | None]) -> None:
        self._emit = check_callable("the function of an emitter", emit, "the record")

    @staticmethod
    def static_index(
        index: str, key_field: str | None = None, doc_type: str | None = None
    ) -> ElasticsearchEmitter:
        """Write all records to one index.

        >>> emitter = ElasticsearchEmitter.static_index("users", "id")
        >>> [(action.operation, action.id) for action in emitter.actions({"id": 7, "name": "ada"})]
        [('update', '7')]
        """
        check_text("index", index)
        return ElasticsearchEmitter(
            _Fields(index, None, _optional("key_field", key_field), doc_type)
        )

    @staticmethod
    def dynamic_index(
        index_field: str, key_field: str | None = None, doc_type: str | None = None
    ) -> ElasticsearchEmitter:
        """Write each record to the index named by one of its fields."""
        check_text("index_field", index_field)
        return ElasticsearchEmitter(
            _Fields(None, index_field, _optional("key_field", key_field), doc_type)
        )

    def actions(self, record: Record) -> list[BulkAction]:
        """Return the actions of a record: none, one or several."""
        made = self._emit(record)
        if made is None:
            return []
        found = [made] if isinstance(made, BulkAction) else list(made)
        for each in found:
            if not isinstance(each, BulkAction):
                raise RecordError(
                    "an emitter returned something other than a BulkAction",
                    detail=f"got {each!r} for the record {record!r}",
                )
        return found


@dataclass(frozen=True, slots=True)
class _Fields:
    """Takes index and id from a record's fields."""

    index: str | None
    index_field: str | None
    key_field: str | None
    doc_type: str | None

    def __call__(self, record: Record) -> BulkAction:
        document = _as_document(record)
        index = self.index
        if index is None:
            assert self.index_field is not None
            index = str(_field(document, self.index_field, "index"))
        if self.key_field is None:
            return BulkAction("index", index, None, document, doc_type=self.doc_type)
        key = str(_field(document, self.key_field, "key"))
        return BulkAction("update", index, key, document, doc_type=self.doc_type)


def _as_document(record: Record) -> Mapping[str, Any]:
    if isinstance(record, Mapping):
        return record
    as_dict = getattr(record, "as_dict", None)
    if callable(as_dict):
        document: Mapping[str, Any] = as_dict()
        return document
    raise RecordError(
        "a record is not a dict or a named Row",
        detail=f"got {record!r}",
        hint="map the records to dicts or named Rows before the sink",
    )


def _field(document: Mapping[str, Any], name: str, what: str) -> Any:
    value = document.get(name)
    if value is None:
        raise RecordError(
            f"a record has no {what} in its field '{name}'", detail=f"the record: {document!r}"
        )
    return value


def _optional(name: str, value: str | None) -> str | None:
    return None if value is None else check_text(name, value)


def _json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, default=_plain).encode()


def _plain(value: Any) -> Any:
    if isinstance(value, (dt.datetime, dt.date, dt.time)):
        return value.isoformat()
    if isinstance(value, decimal.Decimal):
        return str(value)
    if isinstance(value, (set, frozenset)):
        return sorted(value)
    as_dict = getattr(value, "as_dict", None)
    if callable(as_dict):
        return as_dict()
    raise RecordError(
        f"cannot write {value!r} as JSON",
        hint="map the records to plain values before the sink",
    )
