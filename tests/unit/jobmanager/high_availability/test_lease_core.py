"""When a candidate takes a lease."""

from __future__ import annotations

import pytest

from penstock.jobmanager.high_availability.lease_core import LeaseAction, LeaseCore, LeaseRecord


def lease(holder: str | None, version: str = "1") -> LeaseRecord:
    return LeaseRecord(holder, 5.0, 1, version)


@pytest.mark.parametrize(
    ("seen", "steps"),
    [
        ([(0, None)], [LeaseAction.CREATE]),
        ([(0, lease("me"))], [LeaseAction.RENEW]),
        ([(0, lease("")), (0, lease(None))], [LeaseAction.TAKE, LeaseAction.TAKE]),
        # However old it says that it is: it counts from when it was first seen.
        ([(100, lease("other")), (104.9, lease("other"))], [LeaseAction.WAIT, LeaseAction.WAIT]),
        ([(100, lease("other")), (105, lease("other"))], [LeaseAction.WAIT, LeaseAction.TAKE]),
        # A renewal is a new version, and counts again.
        (
            [(0, lease("other")), (4, lease("other", "2")), (8, lease("other", "2"))],
            [LeaseAction.WAIT, LeaseAction.WAIT, LeaseAction.WAIT],
        ),
        ([(0, lease("a")), (4, lease("b", "2")), (9, lease("b", "2"))],
         [LeaseAction.WAIT, LeaseAction.WAIT, LeaseAction.TAKE]),
        ([(0, lease("a")), (1, None), (2, lease("b", "9")), (6, lease("b", "9"))],
         [LeaseAction.WAIT, LeaseAction.CREATE, LeaseAction.WAIT, LeaseAction.WAIT]),
    ],
)  # fmt: skip
def test_a_lease_is_taken_when_it_has_not_changed_for_its_duration(seen, steps) -> None:
    core = LeaseCore("me")
    assert [core.observe(record, now) for now, record in seen] == steps
