"""Hosts of a virtual network on this machine: network namespaces that a bridge joins. Links between them are cut, in one or both directions, and slowed down.

It needs root and the command `ip`. All hosts see each other, and this side of the bridge sees them.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

_PREFIX = "10.231.77"  # of the namespaces; unreachable from outside
_BRIDGE = "penstock0"
_NO_HOST = "02:00:00:00:00:77"  # the hardware address of no host
_RELAY = Path(__file__).with_name("frame_relay.py")


@dataclass(frozen=True)
class Host:
    """Where processes run: an address, and the namespace that has it, if it is not this machine's own."""

    address: str
    namespace: str | None = None

    @property
    def prefix(self) -> list[str]:
        """What runs a command there."""
        return ["ip", "netns", "exec", self.namespace] if self.namespace else []

    @property
    def cable(self) -> str:
        """The end of its cable that is on this side."""
        return f"{self.namespace}-out"

    def plug(self, *, into: bool) -> None:
        """Connect it to the network, or cut it off."""
        _ip("link", "set", self.cable, "up" if into else "down")

    def reach(self, others: Sequence[Host], *, well: bool) -> None:
        """Let what it sends to others arrive, or get lost on the way. What they send arrives in any case."""
        assert self.namespace is not None
        for other in others:
            place = ["-n", self.namespace, "neigh"]
            if well:
                _ip(*place, "del", other.address, "dev", "eth0")
            else:
                to_no_host = [other.address, "lladdr", _NO_HOST, "dev", "eth0", "nud", "permanent"]
                _ip(*place, "replace", *to_no_host)

    def bytes_crossed(self) -> int:
        """How much came from it and went to it."""
        directory = Path("/sys/class/net", self.cable, "statistics")
        return sum(int((directory / name).read_text()) for name in ("rx_bytes", "tx_bytes"))


def _ip(*words: str) -> None:
    done = subprocess.run(["ip", *words], check=False, capture_output=True, text=True)
    if done.returncode:
        raise OSError(f"ip {' '.join(words)}: {done.stderr.strip()}")


def why_no_namespaces() -> str | None:
    """Return why network namespaces cannot be made here, if they cannot."""
    if shutil.which("ip") is None:
        return "there is no `ip` command"
    if os.geteuid() != 0:
        return "network namespaces need root"
    try:
        _ip("netns", "add", "penstock-probe")
        _ip("netns", "del", "penstock-probe")
        _ip("link", "add", "penstock-probe", "type", "bridge")
        _ip("link", "del", "penstock-probe")
    except OSError as error:
        return f"network namespaces cannot be made: {error}"
    return None


@contextlib.contextmanager
def network(count: int, *, delay_ms: float = 0) -> Iterator[list[Host]]:
    """Make so many hosts; take everything away in the end. Every frame waits `delay_ms` on its way from one host to another."""
    names = [f"penstock{number}" for number in range(1, count + 1)]
    relays: list[subprocess.Popen[bytes]] = []
    _remove(names)
    try:
        _ip("link", "add", _BRIDGE, "type", "bridge")
        _ip("addr", "add", f"{_PREFIX}.1/24", "dev", _BRIDGE)
        _ip("link", "set", _BRIDGE, "up")
        hosts = []
        for number, name in enumerate(names, 2):
            host = Host(f"{_PREFIX}.{number}", name)
            _ip("netns", "add", name)
            _ip("link", "add", host.cable, "type", "veth", "peer", "name", "eth0", "netns", name)
            _ip("-n", name, "link", "set", "lo", "up")
            _ip("-n", name, "addr", "add", f"{host.address}/24", "dev", "eth0")
            _ip("-n", name, "link", "set", "eth0", "up")
            _ip("link", "set", host.cable, "up")
            if delay_ms:  # half of it on each of two cables
                relays.append(_slow_down(host, delay_ms / 2))
            else:
                _ip("link", "set", host.cable, "master", _BRIDGE)
            hosts.append(host)
        yield hosts
    finally:
        for relay in relays:
            relay.kill()
            relay.wait()
        _remove(names)


def _slow_down(host: Host, delay_ms: float) -> subprocess.Popen[bytes]:
    """Put a relay between a host and the bridge. The kernels of many machines have no netem, which would do this."""
    near, far = _relay_ends(str(host.namespace))
    _ip("link", "add", near, "type", "veth", "peer", "name", far)
    relay = [sys.executable, str(_RELAY)]
    # Frames must be complete: with offloading, a cable of this kind carries large ones without checksums.
    subprocess.run([*host.prefix, *relay, "complete", "eth0"], check=True)
    subprocess.run([*relay, "complete", host.cable, near, far], check=True)
    _ip("link", "set", near, "up")
    _ip("link", "set", far, "master", _BRIDGE, "up")
    return subprocess.Popen([*relay, "pass", host.cable, near, str(delay_ms)])


def _relay_ends(name: str) -> tuple[str, str]:
    return f"{name}-near", f"{name}-far"


def _remove(names: Sequence[str]) -> None:
    for name in names:
        with contextlib.suppress(OSError):
            _ip("netns", "del", name)
    links = [end for name in names for end in (f"{name}-out", _relay_ends(name)[0])]
    for link in (_BRIDGE, *links):
        with contextlib.suppress(OSError):
            _ip("link", "del", link)
