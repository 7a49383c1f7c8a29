from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.checkpoint.retention import CompletedCheckpoint, orphaned, retain
from tests.builders.checkpoint_builders import manifest

epochs_and_files = st.dictionaries(
    st.integers(1, 20), st.frozensets(st.sampled_from("abcdefgh")), min_size=1
)


@given(epochs_and_files, st.integers(1, 5))
def test_the_newest_checkpoints_stay_with_all_their_files(checkpoints, count):
    completed = [
        CompletedCheckpoint(checkpoint_id, files) for checkpoint_id, files in checkpoints.items()
    ]
    decision = retain(completed, count)
    newest = sorted(checkpoints)[-count:]
    assert [checkpoint.checkpoint_id for checkpoint in decision.kept] == newest
    assert set(decision.dropped) == set(checkpoints) - set(newest)
    needed = set().union(*(checkpoints[checkpoint_id] for checkpoint_id in newest))
    dropped = set().union(*(checkpoints[checkpoint_id] for checkpoint_id in decision.dropped))
    assert set(decision.files) == dropped - needed


@pytest.mark.parametrize(
    ("old", "new", "deleted"),
    [
        pytest.param("shared/1-a.state", "shared/2-a.state", ("shared/1-a.state",), id="own"),
        pytest.param("/other/shared/1-a.state", "shared/2-a.state", (), id="another job's"),
        pytest.param("shared/1-a.state", "/own/shared/1-a.state", (), id="own, by full path"),
    ],
)
def test_a_file_goes_only_if_it_is_ours_and_not_needed(old, new, deleted):
    completed = [CompletedCheckpoint(1, frozenset({old})), CompletedCheckpoint(2, frozenset({new}))]
    assert retain(completed, 1).files == deleted


FILES = [
    "shared/3-sum-0-a.state",  # named by checkpoint 3
    "shared/3-sum-0-b.state",  # lost a race in epoch 3
    "shared/4-sum-0-a.state",  # named by checkpoint 4
    "shared/4-sum-0-b.state",  # lost a race in epoch 4
    "shared/5-sum-0-a.state",  # epoch 5 is running
    "shared/notes.txt",
]
CHECKPOINTS = [
    manifest(3, files=("shared/3-sum-0-a.state",)),
    manifest(4, files=("shared/3-sum-0-a.state", "shared/4-sum-0-a.state")),
]


@pytest.mark.parametrize(
    ("retained", "up_to_checkpoint_id", "expected"),
    [
        pytest.param(CHECKPOINTS, None, [FILES[1], FILES[3]], id="up to the newest checkpoint"),
        pytest.param(CHECKPOINTS, 3, [FILES[1]], id="up to an older epoch"),
        pytest.param(CHECKPOINTS, 9, [FILES[1], FILES[3]], id="never beyond the newest"),
        pytest.param(CHECKPOINTS[:1], None, [FILES[1]], id="epoch 4 is running"),
        pytest.param([], None, [], id="no checkpoint, nothing is known"),
        pytest.param(
            [manifest(5, files=tuple(f"/own/{name}" for name in FILES[:5]))],
            None,
            [],
            id="named by full path",
        ),
    ],
)
def test_orphans_are_files_of_completed_epochs_that_no_manifest_names(
    retained, up_to_checkpoint_id, expected
):
    assert orphaned(FILES, retained, up_to_checkpoint_id=up_to_checkpoint_id) == expected
