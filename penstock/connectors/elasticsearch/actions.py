"""What a sink asks of an index: one action for each record, in the form that the _bulk API has for it."""

from __future__ import annotations

import datetime as dt
import decimal
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from penstock.connectors.arguments import check_callable, check_one_of, check_text
from penstock.errors import RecordError

OPERATIONS = ("index", "create", "update", "delete")


@dataclass(frozen=True, slots=True)
class BulkAction:
    """One line, or two, of a bulk request.

    `index` writes a whole document, `update` merges it into the one that is there or makes it, `create` writes it if it is not there yet, `delete` needs no document. With an
    id all of them may be done twice; without one, `index` makes another document each time.
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
            raise RecordError(f"a bulk action '{self.operation}' has no id")

    @property
    def target(self) -> tuple[str, str] | None:
        """The document that it is about, if that has an id."""
        return None if self.id is None else (self.index, self.id)

    def lines(self) -> bytes:
        r"""Return it as it is sent.

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
    """Makes actions of records.

    Records of `static_index` and `dynamic_index` are dicts or Rows. Those with a key field are merged into the document with that id, so that
    they may come twice.
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
        """Write each record to the index that one of its fields names."""
        check_text("index_field", index_field)
        return ElasticsearchEmitter(
            _Fields(None, index_field, _optional("key_field", key_field), doc_type)
        )

    def actions(self, record: Any) -> list[BulkAction]:
        """Return the actions of a record: none, one or several."""
        made = self._emit(record)
        if made is None:
            return []
        found = [made] if isinstance(made, BulkAction) else list(made)
        for each in found:
            if not isinstance(each, BulkAction):
                raise RecordError(
                    "an emitter made something that is no BulkAction",
                    detail=f"it is {each!r}, of the record {record!r}",
                )
        return found


@dataclass(frozen=True, slots=True)
class _Fields:
    """Takes index and id from a record's fields."""

    index: str | None
    index_field: str | None
    key_field: str | None
    doc_type: str | None

    def __call__(self, record: Any) -> BulkAction:
        document = _as_document(record)
        index = self.index
        if index is None:
            assert self.index_field is not None
            index = str(_field(document, self.index_field, "index"))
        if self.key_field is None:
            return BulkAction("index", index, None, document, doc_type=self.doc_type)
        key = str(_field(document, self.key_field, "key"))
        return BulkAction("update", index, key, document, doc_type=self.doc_type)


def _as_document(record: Any) -> Mapping[str, Any]:
    if isinstance(record, Mapping):
        return record
    as_dict = getattr(record, "as_dict", None)
    if callable(as_dict):
        document: Mapping[str, Any] = as_dict()
        return document
    raise RecordError(
        "a record is not a document",
        detail=f"it is {record!r}",
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
        f"{value!r} cannot be written as JSON",
        hint="map the records to plain values before the sink",
    )
