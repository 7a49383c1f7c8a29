"""Slots that a job cannot resume from, and the name of the reader's connection."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from penstock.connectors.postgres_cdc.log_reader import LogReader
from penstock.connectors.postgres_cdc.log_receiver import ReceivedMessage
from penstock.connectors.postgres_cdc.options import CdcOptions
from penstock.connectors.postgres_cdc.pgoutput import PgOutputBegin
from penstock.connectors.postgres_cdc.positions import StreamPosition
from penstock.connectors.postgres_cdc.reader import CdcReader
from penstock.connectors.postgres_cdc.slots import Slot, check_slot
from penstock.errors import InvalidProgramError, RestoreRefusedError
from penstock.runtime.operators.runtime_context import StreamingRuntimeContext

OPTIONS = CdcOptions("db.example", 5432, "shop", "u", "p", slot="orders")


def slot(confirmed=100, status="reserved", plugin="pgoutput", database="shop"):
    return Slot(plugin, database, confirmed, status, None, None)


@pytest.mark.parametrize(
    ("found", "error", "message"),
    [
        (
            None,
            RestoreRefusedError,
            "the replication slot 'orders' of db.example:5432/shop does not exist",
        ),
        (slot(status="lost"), RestoreRefusedError, "has removed log"),
        (slot(confirmed=101), RestoreRefusedError, "has advanced past the checkpoint"),
        (slot(plugin="test_decoding"), InvalidProgramError, "is not a pgoutput slot"),
        (slot(database="other"), InvalidProgramError, "is not a pgoutput slot"),
    ],
)
def test_unusable_slot_is_rejected(found, error, message):
    with pytest.raises(error, match=message) as caught:
        check_slot(found, OPTIONS, StreamPosition(100))
    assert caught.value.hint


def test_a_slot_at_the_position_or_before_will_do():
    check_slot(slot(), OPTIONS, StreamPosition(100))
    check_slot(slot(confirmed=7), OPTIONS, StreamPosition(100, 3))


@pytest.mark.parametrize("delay", [0, 1, 3])
def test_the_slot_stays_behind_by_so_many_checkpoints(delay):
    reader = LogReader(replace(OPTIONS, confirm_delay=delay), "me", lambda: None)
    confirmed = []
    for lsn in (10, 20, 30, 40, 50):
        reader.confirm(StreamPosition(lsn, 2))
        confirmed.append(reader._confirmed)
    assert confirmed == ([0] * delay + [10, 20, 30, 40, 50])[:5]


def test_lag_and_idle_time_are_metrics():
    context = StreamingRuntimeContext(task_name="t", subtask=0, parallelism=1, max_parallelism=1)
    reader = CdcReader(OPTIONS)
    reader.open(context)
    assert reader._fetch_lag() == reader._idle_time() == 0
    reader._log = LogReader(OPTIONS, "me", lambda: None)
    now = int(time.time() * 1000)
    begin = (
        b"B" + (7).to_bytes(8) + ((now - 250) * 1000 - 946_684_800_000_000).to_bytes(8) + bytes(4)
    )
    reader._log._on_message(ReceivedMessage(begin, now), [], [], [])
    assert isinstance(reader._log._begin, PgOutputBegin)
    assert reader._fetch_lag() == 250
    before = int(time.time() * 1000)
    assert before <= now + reader._idle_time() <= int(time.time() * 1000)
