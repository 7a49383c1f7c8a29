"""Batches of messages: what is good is read, what is malformed is reported alone."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.common.serialization import (
    ByteArraySchema,
    DeserializationSchema,
    SerializationSchema,
    SimpleStringSchema,
    deserialize_each,
)
from penstock.common.types import Row
from penstock.errors import PenstockError, RecordError


class Numbers(DeserializationSchema):
    """Whole numbers; "-" is left out, "stop" raises what ends a `map`."""

    def __init__(self):
        self.seen = []

    def deserialize(self, message):
        self.seen.append(message)
        if message == b"stop":
            raise StopIteration
        return None if message == b"-" else int(message)


class Words(DeserializationSchema):
    """As many records as there are words."""

    def deserialize(self, message):
        raise AssertionError("not called")

    def deserialize_many(self, message):
        yield from message.decode().split()


def parts(found):
    return found.records, found.indexes, [index for index, _ in found.failures]


MESSAGES = st.lists(st.sampled_from([b"1", b"22", b"x", b"-", b"stop", None]), max_size=12)


@given(MESSAGES)
def test_each_message_is_a_record_or_a_failure_or_left_out_in_order(messages):
    schema = Numbers()
    found = schema.deserialize_batch(messages)
    good = [i for i, m in enumerate(messages) if m in {b"1", b"22"}]
    assert found.records == [int(messages[i]) for i in good]
    assert list(found.of_each(range(len(messages)))) == good
    assert [i for i, _ in found.failures] == [
        i for i, m in enumerate(messages) if m in {b"x", b"stop"}
    ]
    assert schema.seen == [m for m in messages if m is not None]  # each once


@given(st.lists(st.sampled_from([b"a", b"b c", b"", b"\xff", None]), max_size=12))
def test_a_message_of_several_records_is_the_origin_of_each(messages):
    found = Words().deserialize_batch(messages)
    expected = [
        (word, index)
        for index, message in enumerate(messages)
        if message not in {None, b"\xff"}
        for word in message.decode().split()
    ]
    assert list(zip(found.records, found.indexes, strict=True)) == expected
    assert [i for i, _ in found.failures] == [i for i, m in enumerate(messages) if m == b"\xff"]


def test_a_batch_without_fault_has_no_indexes():
    assert parts(Numbers().deserialize_batch([b"1", b"2"])) == ([1, 2], None, [])
    assert parts(Numbers().deserialize_batch([])) == ([], None, [])


@pytest.mark.parametrize("charset", ["UTF-8", "UTF-16", "ascii"])
def test_text_that_is_none_is_reported_with_words(charset):
    schema = SimpleStringSchema(charset)
    good = [schema.serialize(str(i)) for i in range(5)]
    for at in range(6):
        messages = [*good[:at], b"\xff\xff\x00", *good[at:]]
        found = schema.deserialize_batch(messages)
        assert found.records == list("01234")
        [(index, error)] = found.failures
        assert index == at
        assert isinstance(error, RecordError)
        assert f"is not text in {charset}" in str(error)


def test_bytes_come_as_they_are_without_tombstones():
    assert parts(ByteArraySchema().deserialize_batch([b"a", None, b""])) == (
        [b"a", b""],
        [0, 2],
        [],
    )
    assert parts(ByteArraySchema().deserialize_batch([b"a"])) == ([b"a"], None, [])


@pytest.mark.parametrize("many", [False, True])
def test_an_error_that_says_nothing_of_the_message_fails_the_batch(many):
    class Away(DeserializationSchema):
        def deserialize(self, message):
            raise PenstockError("the schema registry did not answer")

    class ManyAway(Away):
        def deserialize_many(self, message):
            return [self.deserialize(message)]

    with pytest.raises(PenstockError, match="did not answer"):
        (ManyAway() if many else Away()).deserialize_batch([b"a", b"b"])


def test_an_error_of_penstock_about_a_value_is_the_messages_fault():
    class Rows(DeserializationSchema):
        def deserialize(self, message):
            row = Row(*message.decode().split())
            row.set_field_names(["a", "b"])
            return row

    found = Rows().deserialize_batch([b"1 2", b"1", b"3 4"])
    assert parts(found) == ([Row(a="1", b="2"), Row(a="3", b="4")], [0, 2], [1])


def test_the_careful_function_has_the_last_word():
    found = deserialize_each(int, [b"1", b"two", b"three"], {b"two": 2}.__getitem__)
    assert parts(found) == ([1, 2], [0, 1], [2])
    assert isinstance(found.failures[0][1], KeyError)


def test_what_is_overridden_in_a_subclass_is_not_passed_by():
    class Upper(SimpleStringSchema):
        def deserialize(self, message):
            return super().deserialize(message).upper()

    class Twice(SimpleStringSchema):
        def deserialize_many(self, message):
            return [self.deserialize(message)] * 2

    assert parts(Upper().deserialize_batch([b"a"])) == (["A"], None, [])
    assert parts(Twice().deserialize_batch([b"a"])) == (["a", "a"], [0, 0], [])


def test_records_are_written_in_order_and_the_first_that_cannot_be_is_named():
    class Quick(SerializationSchema):
        def serialize(self, value):
            raise AssertionError("not called")

        def serialize_batch(self, values):
            return [b"quick"] * len(values)

    class Slow(Quick):
        def serialize(self, value):
            return b"slow"

    assert SimpleStringSchema().serialize_batch(["a", "é"]) == [b"a", "é".encode()]
    with pytest.raises(RecordError, match="5 is not a str"):
        SimpleStringSchema().serialize_batch(["a", 5, 6])
    assert Quick().serialize_batch([1]) == [b"quick"]
    assert Slow().serialize_batch([1]) == [b"slow"]
