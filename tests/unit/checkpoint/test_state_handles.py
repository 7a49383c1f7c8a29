from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.checkpoint.handles import (
    MAX_DELTAS,
    StateChain,
    StateHandle,
    checkpoint_id_of_file,
    read_state,
    should_compact,
    state_file_name,
    write_state,
)
from penstock.checkpoint.storage import CheckpointFileSystem
from penstock.errors import ArgumentError, CheckpointError

KB = 1024


def handle(kind="delta", size=10, name="shared/1-v-0-a.state", **more):
    return StateHandle(kind, size, 0, (0, 128), name=name, **more)


def chain(full_size, *delta_sizes):
    deltas = (handle("delta", size, f"shared/{i}-d.state") for i, size in enumerate(delta_sizes))
    return StateChain((handle("full", full_size), *deltas))


@pytest.fixture
def storage(tmp_path):
    return CheckpointFileSystem(str(tmp_path / "job"))


def write(storage, payload, *, inline_threshold=0, attempt="a1", kind="full"):
    return write_state(
        storage,
        payload,
        kind=kind,
        key_groups=(0, 64),
        checkpoint_id=7,
        vertex="window",
        subtask=1,
        attempt=attempt,
        inline_threshold=inline_threshold,
    )


@pytest.mark.parametrize(
    ("size", "threshold", "inline"),
    [(0, 0, True), (1, 0, False), (10, 10, True), (11, 10, False)],
)
def test_small_state_stays_in_the_handle(storage, size, threshold, inline):
    written = write(storage, b"x" * size, inline_threshold=threshold)
    assert (written.data is not None, storage.list()) == (
        inline,
        [] if inline else ["shared/7-window-1-a1.state"],
    )
    assert read_state(storage, written) == b"x" * size


def test_two_attempts_of_a_task_write_two_files(storage):
    first, second = write(storage, b"one", attempt="a1"), write(storage, b"two", attempt="a2")
    assert (read_state(storage, first), read_state(storage, second)) == (b"one", b"two")


def test_an_attempt_never_overwrites(storage):
    write(storage, b"one")
    with pytest.raises(CheckpointError, match="exists already"):
        write(storage, b"two")


@pytest.mark.parametrize(
    "damaged", [b"", b"stat", b"state+", b"stale"], ids=["empty", "cut", "longer", "altered"]
)
def test_a_damaged_file_is_named(storage, damaged):
    written = write(storage, b"state")
    storage.write_atomic(written.name, damaged)
    with pytest.raises(CheckpointError, match=re.escape(storage.path(written.name))) as raised:
        read_state(storage, written)
    assert "is damaged" in raised.value.message


def test_damaged_inline_state_is_an_error(storage):
    with pytest.raises(CheckpointError, match="inside a checkpoint's manifest is damaged"):
        read_state(storage, StateHandle("full", 5, 1, (0, 1), data=b"state"))


@pytest.mark.parametrize(
    ("state_chain", "next_size", "expected"),
    [
        pytest.param(StateChain(), 0, True, id="nothing yet"),
        pytest.param(chain(0), 64 * KB, False, id="small state, 64 KB of deltas"),
        pytest.param(chain(0), 64 * KB + 1, True, id="small state, more than 64 KB of deltas"),
        pytest.param(chain(100 * KB), 100 * KB, False, id="deltas as large as the full one"),
        pytest.param(chain(100 * KB), 100 * KB + 1, True, id="delta larger than the full one"),
        pytest.param(chain(100 * KB, 60 * KB), 40 * KB, False, id="deltas add up to the full one"),
        pytest.param(chain(100 * KB, 60 * KB), 40 * KB + 1, True, id="deltas add up to more"),
        pytest.param(chain(KB, *[1] * (MAX_DELTAS - 1)), 1, False, id="the 16th delta"),
        pytest.param(chain(KB, *[1] * MAX_DELTAS), 1, True, id="a 17th delta"),
        pytest.param(
            StateChain((handle("full", 10, "/other/shared/1-v-0-a.state"),)),
            1,
            True,
            id="files of another job",
        ),
    ],
)
def test_a_full_snapshot_is_due(state_chain, next_size, expected):
    assert should_compact(state_chain, next_size) is expected


@given(st.integers(0, 10**6), st.lists(st.integers(0, 10**5), max_size=200))
def test_a_restore_reads_at_most_twice_the_state_and_17_files(full_size, changes):
    current = chain(full_size)
    for change in changes:
        kind = "full" if should_compact(current, change) else "delta"
        current = current.append(handle(kind, full_size if kind == "full" else change))
        assert len(current) <= 1 + MAX_DELTAS
        assert current.size <= full_size + max(full_size, 64 * KB)


FULL, OTHER_FULL = handle("full"), handle("full", name="shared/2-v-0-b.state")
INLINE = StateHandle("full", 1, 1, (0, 128), data=b"x")
D1, D2 = handle(name="d1"), handle(name="d2")


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        pytest.param((), (), True, id="no state"),
        pytest.param((), (FULL,), True, id="first state"),
        pytest.param((FULL, D1), (FULL, D1), True, id="unchanged"),
        pytest.param((FULL,), (FULL, D1), True, id="one more delta"),
        pytest.param((FULL, D1), (OTHER_FULL,), True, id="compacted"),
        pytest.param((INLINE, D1), (INLINE,), True, id="compacted to what it was, inline"),
        pytest.param((FULL, D1), (FULL,), False, id="a delta is missing"),
        pytest.param((FULL, D1), (FULL, D2), False, id="another delta instead"),
        pytest.param((INLINE, D1), (INLINE, D2), False, id="another delta instead, inline"),
        pytest.param((FULL, D1), (OTHER_FULL, D1), False, id="deltas of another snapshot"),
        pytest.param((FULL,), (), False, id="state vanished"),
    ],
)
def test_a_chain_goes_on_from_the_completed_one(before, after, expected):
    assert StateChain(after).continues(StateChain(before)) is expected


@pytest.mark.parametrize(
    "handles",
    [(D1,), (FULL, FULL), (FULL, D1, FULL)],
    ids=["delta first", "two fulls", "full last"],
)
def test_a_chain_is_one_full_snapshot_and_deltas(handles):
    with pytest.raises(ArgumentError, match="one full snapshot followed by deltas"):
        StateChain(handles)


def test_appending_a_full_snapshot_starts_a_new_chain():
    assert StateChain((FULL, D1)).append(D2).handles == (FULL, D1, D2)
    assert StateChain((FULL, D1)).append(OTHER_FULL).handles == (OTHER_FULL,)


@pytest.mark.parametrize("places", [{}, {"data": b"", "name": "x"}], ids=["neither", "both"])
def test_a_handle_is_bytes_or_a_file(places):
    with pytest.raises(ArgumentError, match="either its bytes or a file name"):
        StateHandle("full", 0, 0, (0, 1), **places)


handles = st.builds(
    lambda size, crc, groups, where: StateHandle("delta", size, crc, groups, **where),
    st.integers(0),
    st.integers(0, 2**32 - 1),
    st.tuples(st.integers(0, 127), st.integers(1, 128)),
    st.one_of(
        st.builds(lambda data: {"data": data}, st.binary()),
        st.builds(lambda name: {"name": name}, st.text(min_size=1)),
    ),
)


@given(st.lists(handles, max_size=4))
def test_json_gives_the_same_chain_back(deltas):
    original = StateChain((FULL, *deltas))
    assert StateChain.from_json(json.loads(json.dumps(original.to_json()))) == original


@given(st.integers(0), st.text(max_size=200), st.integers(0, 99), st.text(max_size=200))
def test_state_file_name_contains_its_checkpoint_id(checkpoint_id, vertex, subtask, attempt):
    name = state_file_name(checkpoint_id, vertex, subtask, attempt)
    assert re.fullmatch(r"shared/[A-Za-z0-9_.-]{1,255}", name)
    assert checkpoint_id_of_file(name) == checkpoint_id


@pytest.mark.parametrize("pair", [("a/b", "a_b"), ("ä", "ö"), ("x" * 81, "x" * 82), ("a b", "a-b")])
def test_files_of_two_operators_differ(pair):
    assert state_file_name(1, pair[0], 0, "a") != state_file_name(1, pair[1], 0, "a")


@pytest.mark.parametrize("name", ["shared/notes.txt", "shared/x-v-0-a.state", "7.state", ""])
def test_other_files_have_no_epoch(name):
    assert checkpoint_id_of_file(name) is None


def test_a_relocated_chain_is_read_from_another_job(storage, tmp_path):
    written = write(storage, b"state")
    moved = StateChain((written, INLINE_DELTA)).relocated(storage)
    elsewhere = CheckpointFileSystem(str(tmp_path / "elsewhere"))
    assert [read_state(elsewhere, part) for part in moved] == [b"state", b"x"]
    assert moved.relocated(elsewhere) == moved


INLINE_DELTA = StateHandle("delta", 1, 0x8CDC1683, (0, 128), data=b"x")
