"""Clients that ask a server over and over, each as soon as it has its answer."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Sequence

_LENGTH = b"content-length: "


async def flood(
    host: str, port: int, paths: Sequence[str], clients: int, seconds: float
) -> Counter[int]:
    """Ask with so many clients for so long; return how many answers there were, by status."""
    until = time.monotonic() + seconds
    answers: Counter[int] = Counter()

    async def client(number: int) -> None:
        reader, writer = await asyncio.open_connection(host, port)
        turn = number
        while time.monotonic() < until:
            path = paths[turn % len(paths)]
            turn += 1
            writer.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
            head = (await reader.readuntil(b"\r\n\r\n")).lower()
            length = int(head.partition(_LENGTH)[2].partition(b"\r\n")[0])
            await reader.readexactly(length)
            answers[int(head.split()[1])] += 1
        writer.close()

    await asyncio.gather(*(client(number) for number in range(clients)))
    return answers
