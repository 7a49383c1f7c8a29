"""Runs commands exactly once, after their checkpoint is durable.

Redis has no transactions that one process prepares and another one commits. So the commands themselves are the committables, and
the driver runs them with a script. The server runs a script atomically: it checks whether these commands were run, runs them,
and records that they were. A repeated commit, after any crash, finds the record and does nothing.

The records of a subtask are a hash and a list, of the last commits only: older ones cannot be repeated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from penstock.connectors.base.rejections import FAIL, RejectedRecord
from penstock.connectors.base.sink import CommitRequest, Committer
from penstock.connectors.base.staged_sinks import (
    StagedOutput,
    delete_staged,
    is_staged,
    unpickled,
)
from penstock.connectors.redis.client import RedisCalls
from penstock.connectors.redis.commands import Command, show
from penstock.errors import RecordError

# A script blocks all other clients of the server: many small ones, each of which runs once.
_CHUNK = 2000
_NOTES_KEPT = 256

# KEYS: the records, their order. ARGV: the commit, the number of its chunk (from 1), how many records to keep, then for each
# command the number of its parts and the parts. Errors of rejected commands are stored with the record, so that a repeated
# commit returns them again.
_SCRIPT = """
local done = tonumber(redis.call('HGET', KEYS[1], ARGV[1]) or '0')
local chunk = tonumber(ARGV[2])
local marker = ARGV[1] .. '#' .. ARGV[2]
if done >= chunk then
  return redis.call('HGET', KEYS[1], marker) or ''
end
local at, number, refused = 4, 0, {}
while at <= #ARGV do
  local parts = tonumber(ARGV[at])
  local answer = redis.pcall(unpack(ARGV, at + 1, at + parts))
  if type(answer) == 'table' and answer.err then
    refused[#refused + 1] = number .. ' ' .. answer.err
  end
  at = at + parts + 1
  number = number + 1
end
redis.call('HSET', KEYS[1], ARGV[1], chunk)
local text = table.concat(refused, '\\n')
if text ~= '' then
  redis.call('HSET', KEYS[1], marker, text)
end
if done == 0 then
  redis.call('LPUSH', KEYS[2], ARGV[1])
  while redis.call('LLEN', KEYS[2]) > tonumber(ARGV[3]) do
    local old = redis.call('RPOP', KEYS[2])
    for each = 1, tonumber(redis.call('HGET', KEYS[1], old) or '0') do
      redis.call('HDEL', KEYS[1], old .. '#' .. each)
    end
    redis.call('HDEL', KEYS[1], old)
  end
end
return text
"""


@dataclass(frozen=True, slots=True)
class StagedCommands:
    """The commands of one subtask for one checkpoint."""

    operator_id: str
    attempt: str  # unique to this attempt at the checkpoint
    output: StagedOutput


class RedisCommitter(Committer):
    """Runs commands on the server, each exactly once."""

    def __init__(
        self,
        calls: RedisCalls,
        prefix: str,
        on_rejected: str | Callable[[RejectedRecord], Any],
    ) -> None:
        self._calls = calls
        self._prefix = prefix
        self._on_rejected = on_rejected

    def commit(self, request: CommitRequest) -> Any:
        """Run all commands that were not run yet; those of a subtask keep their order."""
        for staged in request.committables:
            if is_staged(staged.output):  # else it was committed, and its file deleted
                self._commit_one(staged)
        for staged in request.committables:
            delete_staged(staged.output)

    def _commit_one(self, staged: StagedCommands) -> None:
        output = staged.output
        notes = f"{self._prefix}:{output.job_id}:{staged.operator_id}:{output.subtask}"
        commands = (each for batch in unpickled(output) for each in batch)
        for number, chunk in enumerate(_chunks(commands, _CHUNK), 1):
            arguments: list[Any] = [staged.attempt, number, _NOTES_KEPT]
            for command in chunk:
                arguments += [len(command), *command]
            errors = self._calls.call(
                lambda client, given=arguments: client.eval(  # type: ignore[misc]
                    _SCRIPT, 2, notes, f"{notes}:order", *given
                )
            )
            if errors:
                self._refused(chunk, errors.decode() if isinstance(errors, bytes) else errors)

    def _refused(self, chunk: Sequence[Command], errors: str) -> None:
        for line in errors.split("\n"):
            number, _, reason = line.partition(" ")
            command = chunk[int(number)]
            if self._on_rejected == FAIL:
                raise RecordError(
                    f"{self._calls.name} rejected a command",
                    detail=f"{reason}; command: {show(command)}",
                    hint="the other commands of the checkpoint were run; set on_rejected to a function to continue without it",
                )
            assert callable(self._on_rejected)
            target = f"{self._calls.name}, command {show(command)},"
            self._on_rejected(RejectedRecord(command, target, None, reason))

    def close(self) -> None:
        """Close the connection."""
        self._calls.close()


def _chunks(commands: Iterator[Command], size: int) -> Iterator[list[Command]]:
    while chunk := list(islice(commands, size)):
        yield chunk
