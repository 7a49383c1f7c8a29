"""Passes Ethernet frames between two interfaces, each after a pause.

frame_relay.py complete INTERFACE...      let them carry complete frames only, as a wire does
frame_relay.py pass LEFT RIGHT DELAY_MS   until it is killed
"""

from __future__ import annotations

import array
import collections
import fcntl
import select
import socket
import struct
import sys
import time

_ALL_PROTOCOLS = 3
_OUTGOING = 4
_FRAMES_AT_ONCE = 64
_LONGEST = 65_600
_BUFFER_BYTES = 16 << 20
_SIOCETHTOOL = 0x8946
# Of <linux/ethtool.h>: checksums on receipt and sending, scatter-gather, TSO, GSO, GRO
_OFFLOADING = (0x15, 0x17, 0x19, 0x1F, 0x24, 0x2C)


def make_complete(name: str) -> None:
    """Switch offloading off."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        for command in _OFFLOADING:
            value = array.array("B", struct.pack("II", command, 0))
            request = struct.pack("16sP", name.encode(), value.buffer_info()[0])
            try:
                fcntl.ioctl(control, _SIOCETHTOOL, request)
            except OSError:
                continue  # it has no such feature


def pass_frames(left: str, right: str, delay_s: float) -> None:
    """Pass frames in both directions."""
    ends = [_open(left), _open(right)]
    waiting: collections.deque[tuple[float, socket.socket, bytes]] = collections.deque()
    while True:
        pause = max(0.0, waiting[0][0] - time.monotonic()) if waiting else 1.0
        for end in select.select(ends, [], [], pause)[0]:
            other = ends[1 - ends.index(end)]
            for frame in _received(end):
                waiting.append((time.monotonic() + delay_s, other, frame))
        while waiting and waiting[0][0] <= time.monotonic():
            _, target, frame = waiting.popleft()
            try:
                target.send(frame)
            except OSError:
                """The link is down: the frame is lost, as on a wire."""


def _open(name: str) -> socket.socket:
    end = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ALL_PROTOCOLS))
    end.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER_BYTES)
    end.bind((name, 0))
    return end


def _received(end: socket.socket) -> list[bytes]:
    frames = []
    for _ in range(_FRAMES_AT_ONCE):
        try:
            frame, (_, _, kind, *_) = end.recvfrom(_LONGEST, socket.MSG_DONTWAIT)
        except OSError:  # there is none, or the link is down
            break
        if kind != _OUTGOING:
            frames.append(frame)
    return frames


if __name__ == "__main__":
    if sys.argv[1] == "complete":
        for interface in sys.argv[2:]:
            make_complete(interface)
    else:
        pass_frames(sys.argv[2], sys.argv[3], float(sys.argv[4]) / 1000)
