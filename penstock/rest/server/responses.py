"""Responses of handlers as starlette sends them."""

from __future__ import annotations

from typing import Final

import msgspec
from starlette import responses
from starlette.concurrency import iterate_in_threadpool

from penstock.rest.messages import Response

_JSON: Final = "application/json; charset=UTF-8"
# The page runs only its own scripts, and no other page may embed it in a frame (clickjacking).
_HEADERS: Final = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
}


def encoded(answer: Response) -> Response:
    """Return a response whose content is text or bytes, or a stream of them."""
    if answer.stream is not None or answer.media_type is not None:
        return answer
    content = msgspec.json.encode(answer.content, enc_hook=str)
    return Response(content, answer.status, answer.headers, answer.sent, _JSON)


def outgoing(answer: Response) -> responses.Response:
    """Return a response with the headers that all responses have."""
    headers = {**_HEADERS, **answer.headers}
    if answer.stream is not None:
        chunks = (
            answer.stream
            if hasattr(answer.stream, "__aiter__")
            else iterate_in_threadpool(answer.stream)
        )
        return responses.StreamingResponse(chunks, answer.status, headers, answer.media_type)
    answer = encoded(answer)
    return responses.Response(answer.content, answer.status, headers, answer.media_type)
