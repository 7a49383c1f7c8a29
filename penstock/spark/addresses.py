"""The address at which a slot listens: its executor's own."""

from __future__ import annotations

import os
import socket
from urllib.parse import urlsplit

LOCAL_IP = "SPARK_LOCAL_IP"  # the address that Spark binds to, if set


def own_address(seen_by_driver: str, driver: str) -> str:
    """Return the address of this executor.

    `seen_by_driver` is where its connection to Spark's driver comes from. Behind a translation of addresses that is not one of this machine's: then it
    is the one that packets to the driver (`tcp://host:port`) leave from.
    """
    for address in (os.environ.get(LOCAL_IP), seen_by_driver):
        if address and _is_here(address):
            return address
    return _address_towards(driver)


def _is_here(address: str) -> bool:
    try:
        family, kind, _, _, place = socket.getaddrinfo(address, 0, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind) as probe:
            probe.bind(place)
    except OSError:
        return False
    return True


def _address_towards(driver: str) -> str:
    parts = urlsplit(driver)
    family, kind, _, _, place = socket.getaddrinfo(
        parts.hostname, parts.port, type=socket.SOCK_DGRAM
    )[0]
    with socket.socket(family, kind) as probe:
        probe.connect(place)  # sends nothing
        return str(probe.getsockname()[0])
