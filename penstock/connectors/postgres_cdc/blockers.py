"""Describes the open transactions that a server waits for before it creates a replication slot."""

from __future__ import annotations

from typing import Any, Final

_MOST_NAMED: Final = 5

# Of all databases: the server creates a slot only after all older transactions have ended.
_OPEN: Final = """
SELECT pid, application_name, usename, datname, state, xact_start::text
FROM pg_stat_activity
WHERE backend_xid IS NOT NULL AND pid <> ALL(%s)
ORDER BY age(backend_xid) DESC
"""
_PREPARED: Final = """
SELECT gid, owner, database, prepared::text FROM pg_prepared_xacts ORDER BY age(transaction) DESC
"""


def describe_blockers(connection: Any, *own: int) -> str:
    """Describe the server's open transactions, oldest first; `own` are server processes to leave out."""
    found = [
        f"prepared transaction '{gid}' of user {user} in database {database}, prepared {since}"
        for gid, user, database, since in connection.execute(_PREPARED)
    ]
    for pid, application, user, database, state, since in connection.execute(_OPEN, [list(own)]):
        name = f" ('{application}')" if application else ""
        began = f", began {since}" if since else ""
        found.append(
            f"transaction of process {pid}{name} of user {user} in database {database}, {state or 'state not visible'}{began}"
        )
    more = len(found) - _MOST_NAMED
    text = "; ".join(found[:_MOST_NAMED]) + (f"; and {more} more" if more > 0 else "")
    return text or "no open transaction is visible"
