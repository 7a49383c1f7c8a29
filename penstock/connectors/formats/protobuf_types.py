"""Protobuf message types: a generated class, or a name in a set of descriptors. Needs protobuf (`pip install penstock[protobuf]`)."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import Any

from penstock.common.extras import optional_module
from penstock.connectors.formats.field_types import ANY, INTEGER_KINDS, FieldType
from penstock.errors import ArgumentError, ArgumentTypeError

# Names of FieldDescriptor.CPPTYPE_*, which are numbers there, to kinds of columns.
_KINDS = {
    1: "INT", 2: "BIGINT", 3: "BIGINT", 4: "BIGINT", 5: "DOUBLE", 6: "FLOAT", 7: "BOOLEAN", 8: "ENUM", 9: "STRING", 10: "ROW",
}  # fmt: skip


def protobuf(module: str = "") -> Any:
    """Return google.protobuf, or a module of it."""
    name = f"google.protobuf.{module}" if module else "google.protobuf"
    return optional_module(name, extra="protobuf", needed_by="the Protobuf format")


class ProtobufType:
    """A message type that pickles: a class that can be imported by its name, or else its descriptors."""

    def __init__(self, message_class: Any) -> None:
        message = protobuf("message").Message
        if not isinstance(message_class, type) or not issubclass(message_class, message):
            raise ArgumentTypeError(
                "the message type is not a class of Protobuf messages",
                detail=f"it is {message_class!r:.200}",
                hint="give a class that protoc has generated, or use for_descriptor_set(...)",
            )
        self.message_class: Any = message_class

    @classmethod
    def in_descriptor_set(cls, descriptors: bytes | str | Path, name: str) -> ProtobufType:
        """Find a message by its full name in what `protoc --descriptor_set_out --include_imports` has written, or in a file of it."""
        if isinstance(descriptors, (str, Path)):
            descriptors = Path(descriptors).read_bytes()
        try:
            files = protobuf("descriptor_pb2").FileDescriptorSet.FromString(descriptors)
            pool = protobuf("descriptor_pool").DescriptorPool()
            _add_all(pool, files.file)
            found = pool.FindMessageTypeByName(name)
        except KeyError:
            named = sorted(_messages(files.file))
            raise ArgumentError(
                f"the descriptor set has no message {name!r}", hint=f"it has {', '.join(named)}"
            ) from None
        except (TypeError, protobuf("message").DecodeError) as error:
            raise ArgumentError(
                "the descriptor set cannot be read",
                detail=str(error),
                hint="write it with protoc --descriptor_set_out=FILE --include_imports",
            ) from error
        return cls(protobuf("message_factory").GetMessageClass(found))

    @property
    def descriptor(self) -> Any:
        """What the message looks like."""
        return self.message_class.DESCRIPTOR

    def __reduce__(self) -> tuple[Any, ...]:
        kind = self.message_class
        if getattr(sys.modules.get(kind.__module__), kind.__qualname__, None) is kind:
            return ProtobufType, (kind,)
        files = protobuf("descriptor_pb2").FileDescriptorSet()
        _collect(self.descriptor.file, files, set())
        return _found_again, (files.SerializeToString(), self.descriptor.full_name)


def _found_again(descriptors: bytes, name: str) -> ProtobufType:
    return ProtobufType.in_descriptor_set(descriptors, name)


def _collect(file: Any, into: Any, seen: set[str]) -> None:
    """Put a file behind the files that it imports."""
    if file.name in seen:
        return
    seen.add(file.name)
    for each in file.dependencies:
        _collect(each, into, seen)
    file.CopyToProto(into.file.add())


def _add_all(pool: Any, files: Any) -> None:
    """Add files to a pool, in whatever order they come; imports that were left out are looked for among the well-known ones."""
    waiting = {file.name: file for file in files}
    while waiting:
        ready = [file for file in waiting.values() if not waiting.keys() & set(file.dependency)]
        if not ready:
            raise TypeError("files import each other")
        for file in ready:
            for name in file.dependency:
                _add_well_known(pool, name)
            pool.Add(file)
            del waiting[file.name]


def _add_well_known(pool: Any, name: str) -> None:
    with contextlib.suppress(KeyError):
        pool.FindFileByName(name)
        return
    if not name.startswith("google/protobuf/"):
        raise TypeError(f"the import {name!r} is missing")
    module = name.removeprefix("google/protobuf/").removesuffix(".proto")
    file = protobuf("descriptor_pb2").FileDescriptorProto()
    protobuf(f"{module}_pb2").DESCRIPTOR.CopyToProto(file)
    for each in file.dependency:
        _add_well_known(pool, each)
    pool.Add(file)


def _messages(files: Any) -> list[str]:
    return [f"{f.package}.{m.name}".lstrip(".") for f in files for m in f.message_type]


def is_map(field: Any) -> bool:
    """Whether a field is a map."""
    inner = field.message_type
    return bool(inner is not None and inner.GetOptions().map_entry)


def row_type_of(descriptor: Any, within: tuple[str, ...] = ()) -> FieldType:
    """Return the row type of a message, as Flink maps it; enums are texts. A message that contains itself is of any type there."""
    if descriptor.full_name in within:
        return ANY
    inside = (*within, descriptor.full_name)
    return FieldType("ROW", tuple((f.name, _field_type(f, inside)) for f in descriptor.fields))


def _field_type(field: Any, within: tuple[str, ...]) -> FieldType:
    if is_map(field):
        key, value = (
            _single(field.message_type.fields_by_name[n], within) for n in ("key", "value")
        )
        return FieldType("MAP", (("key", key), ("value", value)))
    single = _single(field, within)
    return FieldType("ARRAY", (("element", single),)) if field.is_repeated else single


def _single(field: Any, within: tuple[str, ...]) -> FieldType:
    kind = _KINDS[field.cpp_type]
    if kind == "ROW":
        return row_type_of(field.message_type, within)
    if kind == "STRING" and field.type == field.TYPE_BYTES:
        return FieldType("BYTES")
    return FieldType("STRING" if kind == "ENUM" else kind)


def check_row_type(row: FieldType, descriptor: Any) -> None:
    """Refuse a row type with fields that the message has not, or has of another type."""
    for name, kind in row.fields:
        field = descriptor.fields_by_name.get(name)
        if field is None:
            raise ArgumentError(
                f"the message {descriptor.full_name} has no field {name!r}",
                hint=f"it has {', '.join(each.name for each in descriptor.fields)}",
            )
        _check_kind(kind, field, _field_type(field, (descriptor.full_name,)), descriptor)


def _check_kind(wanted: FieldType, field: Any, has: FieldType, descriptor: Any) -> None:
    if "ANY" in (wanted.kind, has.kind):
        return
    if has.kind in {"ARRAY", "MAP"} and wanted.kind == has.kind:
        last = field.message_type.fields_by_name["value"] if has.kind == "MAP" else field
        _check_kind(wanted.fields[-1][1], last, has.fields[-1][1], descriptor)
        return
    if has.kind == "ROW" == wanted.kind:
        check_row_type(wanted, field.message_type)
        return
    # All integers are Python's: which of them is declared makes no difference. An enum is its name or its number.
    number = field.enum_type is not None or has.kind in INTEGER_KINDS
    if wanted.kind != has.kind and not (number and wanted.kind in INTEGER_KINDS):
        raise ArgumentTypeError(
            f"the field {field.name!r} of {descriptor.full_name} is no {wanted.kind}",
            detail=f"it is {has.kind}",
        )
