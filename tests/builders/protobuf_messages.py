"""Protobuf types made without protoc: files of descriptors, and classes of their messages."""

from __future__ import annotations

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, timestamp_pb2

F = descriptor_pb2.FieldDescriptorProto


def _field(name, number, kind, *, repeated=False, **options):
    label = F.LABEL_REPEATED if repeated else F.LABEL_OPTIONAL
    return F(name=name, number=number, type=kind, label=label, **options)


def _map(message, name, number, value, **options):
    entry = message.nested_type.add(name=f"{name.title()}Entry")
    entry.options.map_entry = True
    entry.field.extend([_field("key", 1, F.TYPE_STRING), _field("value", 2, value, **options)])
    kind = f".shop.Order.{entry.name}"
    message.field.append(_field(name, number, F.TYPE_MESSAGE, repeated=True, type_name=kind))


def descriptor_set():
    """shop.Order of shop/order.proto, with shop.Address from another file, and google's Timestamp."""
    files = descriptor_pb2.FileDescriptorSet()
    address = files.file.add(name="shop/address.proto", package="shop", syntax="proto3")
    place = address.message_type.add(name="Address")
    place.field.append(_field("city", 1, F.TYPE_STRING))
    order = files.file.add(name="shop/order.proto", package="shop", syntax="proto3")
    order.dependency.extend(["shop/address.proto", "google/protobuf/timestamp.proto"])
    state = order.enum_type.add(name="State")
    for number, name in enumerate(["NEW", "PAID", "SENT"]):
        state.value.add(name=name, number=number)
    first = order.message_type.add(name="First")
    first.nested_type.add(name="Outer").nested_type.add(name="Unused")
    inner = first.nested_type[0].nested_type.add(name="Inner")
    inner.field.append(_field("n", 1, F.TYPE_INT32))
    message = order.message_type.add(name="Order")
    message.field.extend(
        [
            _field("id", 1, F.TYPE_INT64),
            _field("name", 2, F.TYPE_STRING, proto3_optional=True, oneof_index=1),
            _field("count", 3, F.TYPE_UINT32),
            _field("big", 4, F.TYPE_UINT64),
            _field("price", 5, F.TYPE_DOUBLE),
            _field("share", 6, F.TYPE_FLOAT),
            _field("paid", 7, F.TYPE_BOOL),
            _field("data", 8, F.TYPE_BYTES),
            _field("state", 9, F.TYPE_ENUM, type_name=".shop.State"),
            _field("tags", 10, F.TYPE_STRING, repeated=True),
            _field("to", 11, F.TYPE_MESSAGE, type_name=".shop.Address"),
            _field("stops", 12, F.TYPE_MESSAGE, repeated=True, type_name=".shop.Address"),
            _field("at", 13, F.TYPE_MESSAGE, type_name=".google.protobuf.Timestamp"),
            _field("card", 14, F.TYPE_STRING, oneof_index=0),
            _field("cash", 15, F.TYPE_INT32, oneof_index=0),
            _field("before", 16, F.TYPE_MESSAGE, type_name=".shop.Order"),
            _field("states", 17, F.TYPE_ENUM, repeated=True, type_name=".shop.State"),
        ]
    )
    message.oneof_decl.add(name="pay")
    message.oneof_decl.add(name="_name")
    _map(message, "parts", 20, F.TYPE_INT32)
    _map(message, "places", 21, F.TYPE_MESSAGE, type_name=".shop.Address")
    return files


def message_class(name="shop.Order"):
    pool = descriptor_pool.DescriptorPool()
    known = descriptor_pb2.FileDescriptorProto()
    timestamp_pb2.DESCRIPTOR.CopyToProto(known)
    pool.Add(known)
    for file in descriptor_set().file:
        pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(name))
