"""What the tests of leases share."""

from __future__ import annotations

from penstock.checkpoint.lease_owner import LeaseOwner


def remote_owner(name, host="far"):
    """A driver on another machine."""
    return LeaseOwner(name, host, 7, 0, name)
