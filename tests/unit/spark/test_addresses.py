"""Where a slot listens."""

from __future__ import annotations

import pytest

from penstock.spark.addresses import LOCAL_IP, own_address

DRIVER = "tcp://127.0.0.1:4321"
ELSEWHERE = "192.0.2.7"  # reserved for examples: no machine has it


@pytest.mark.parametrize(
    ("configured", "seen", "expected"),
    [
        (None, "127.0.0.2", "127.0.0.2"),
        ("127.0.0.3", "127.0.0.2", "127.0.0.3"),
        ("", "127.0.0.2", "127.0.0.2"),
        (ELSEWHERE, "127.0.0.2", "127.0.0.2"),
        (None, ELSEWHERE, "127.0.0.1"),
        (None, "no.such.host.invalid", "127.0.0.1"),
        (None, "::1", "::1"),
    ],
    ids=[
        "seen",
        "configured",
        "nothing configured",
        "configured by another machine",
        "translated",
        "no name",
        "v6",
    ],
)
def test_a_slot_listens_at_an_address_of_its_own_machine(
    monkeypatch, configured, seen, expected
) -> None:
    monkeypatch.delenv(LOCAL_IP, raising=False)
    if configured is not None:
        monkeypatch.setenv(LOCAL_IP, configured)
    assert own_address(seen, DRIVER) == expected
