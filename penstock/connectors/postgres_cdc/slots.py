"""The replication slot and the publication: create, check, take over from a previous reader, drop."""

from __future__ import annotations

import logging
import select
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from penstock.connectors.postgres_cdc.blockers import describe_blockers
from penstock.connectors.postgres_cdc.catalog import CdcTable, connect, quoted
from penstock.connectors.postgres_cdc.options import CdcOptions, PublicationMode
from penstock.connectors.postgres_cdc.positions import StreamPosition, format_lsn, parse_lsn
from penstock.errors import ConfigurationError, InvalidProgramError, RestoreRefusedError

_PAUSE_S: Final = 0.05
#: How long a source waits before it logs what blocks the creation of its slot, and how often it logs that.
FIRST_REPORT_S: Final = 5.0
REPORTS_EVERY_S: Final = 60.0

_log = logging.getLogger("penstock.connectors.cdc.slots")


@dataclass(frozen=True, slots=True)
class Slot:
    """A replication slot as listed by the server."""

    plugin: str
    database: str
    confirmed: int  # the server sends nothing before this position
    wal_status: str | None
    holder: int | None  # the process that reads it
    holder_name: str | None


def find_slot(connection: Any, name: str) -> Slot | None:
    """Return a slot, or None if it does not exist."""
    row = connection.execute(
        "SELECT plugin, database, confirmed_flush_lsn::text, wal_status, active_pid, "
        "(SELECT application_name FROM pg_stat_activity WHERE pid = active_pid) "
        "FROM pg_replication_slots WHERE slot_name = %s",
        [name],
    ).fetchone()
    if row is None:
        return None
    plugin, database, confirmed, wal_status, holder, holder_name = row
    lsn = parse_lsn(confirmed) if confirmed else 0
    return Slot(plugin or "", database or "", lsn, wal_status, holder, holder_name)


def check_server(connection: Any, options: CdcOptions) -> None:
    """Reject a server that is too old or has no logical WAL."""
    if connection.info.server_version < 130000:
        raise ConfigurationError(
            f"the PostgreSQL server {options.server} is too old",
            detail=f"its version is {connection.info.server_version // 10000}",
            hint="change data capture needs PostgreSQL 13 or later",
        )
    (level,) = connection.execute("SHOW wal_level").fetchone()
    if level != "logical":
        raise ConfigurationError(
            f"the PostgreSQL server {options.server} does not write a logical log",
            detail=f"wal_level is {level}",
            hint="set wal_level = logical in postgresql.conf and restart the server",
        )


def check_slot(slot: Slot | None, options: CdcOptions, position: StreamPosition) -> None:
    """Reject a position that the slot can no longer serve."""
    name = f"replication slot '{options.slot}' of {options.server}"
    again = (
        "the changes in between are lost: start without the checkpoint, with StartupOptions.initial(), "
        "which reads the tables again"
    )
    if slot is None:
        raise RestoreRefusedError(
            f"the {name} does not exist", detail=f"the job resumes from {position}", hint=again
        )
    check_plugin(slot, options)
    if slot.wal_status == "lost":
        raise RestoreRefusedError(
            f"the server has removed log that the {name} needs",
            detail=f"the job resumes from {position}; max_slot_wal_keep_size limits what the server keeps",
            hint=again,
        )
    if slot.confirmed > position.lsn:
        raise RestoreRefusedError(
            f"the {name} has advanced past the checkpoint",
            detail=f"the job resumes from {position}, but the slot starts at {format_lsn(slot.confirmed)}: a later checkpoint, "
            "or another job, has confirmed the log before that",
            hint=f"restore the latest checkpoint; lsn_commit_checkpoints_num_delay keeps more of them usable. Otherwise {again}",
        )


def check_plugin(slot: Slot, options: CdcOptions) -> None:
    """Reject a slot of another plugin or database."""
    if slot.plugin == "pgoutput" and slot.database == options.database:
        return
    raise InvalidProgramError(
        f"the replication slot '{options.slot}' of {options.server} is not a pgoutput slot of this database",
        detail=f"its plugin is {slot.plugin or 'none'}, its database {slot.database or 'none'}",
        hint="choose another slot_name, or drop the slot",
    )


def create_slot(options: CdcOptions, name: str) -> int:
    """Create the slot and return its start: everything that commits from there on is sent.

    The server waits for all open transactions that have written something, including those of other databases.
    """
    with connect(options, name, replication=True) as connection:
        result = _execute_with_retries(
            connection.pgconn,
            f"CREATE_REPLICATION_SLOT {quoted(options.slot)} LOGICAL pgoutput NOEXPORT_SNAPSHOT",
            lambda: _log_blockers(options, name, connection.info.backend_pid),
        )
        if result.ntuples != 1:
            message = result.error_message.decode(errors="replace").strip()
            raise ConfigurationError(
                f"cannot create the replication slot '{options.slot}' of {options.server}",
                detail=message,
                hint="the user needs REPLICATION (ALTER ROLE ... REPLICATION), and max_replication_slots must allow one more",
            )
        return parse_lsn(bytes(result.get_value(0, 1)).decode())


def _execute_with_retries(pgconn: Any, command: str, on_wait: Callable[[], None]) -> Any:
    """Run a command of the replication protocol and return its result; `on_wait` is called while that takes long."""
    pgconn.send_query(command.encode())
    while pgconn.flush():
        select.select([], [pgconn.socket], [])
    timeout_s = FIRST_REPORT_S
    while pgconn.is_busy():
        if select.select([pgconn.socket], [], [], timeout_s)[0]:
            pgconn.consume_input()
        else:
            on_wait()
            timeout_s = REPORTS_EVERY_S
    result = pgconn.get_result()
    while pgconn.get_result() is not None:
        pass
    return result


def _log_blockers(options: CdcOptions, name: str, pid: int) -> None:
    try:
        with connect(options, name) as connection:
            blockers = describe_blockers(connection, pid, connection.info.backend_pid)
    except Exception as error:  # noqa: BLE001 - the slot may be created all the same
        blockers = f"cannot list them: {error}"
    _log.warning(
        "waiting to create the replication slot '%s' of %s: open transactions on the server must end first: %s",
        options.slot,
        options.server,
        blockers,
    )


def ensure_publication(connection: Any, options: CdcOptions, tables: Sequence[CdcTable]) -> bool:
    """Create the publication, or add missing tables, depending on the options; return whether it was changed."""
    name = quoted(options.publication)
    row = connection.execute(
        "SELECT puballtables FROM pg_publication WHERE pubname = %s", [options.publication]
    ).fetchone()
    mode = options.publication_mode
    if row is None:
        if mode is PublicationMode.DISABLED:
            raise InvalidProgramError(
                f"publication '{options.publication}' does not exist in {options.server}",
                hint=f"CREATE PUBLICATION {name} FOR TABLE ..., or publication_autocreate_mode('filtered')",
            )
        what = "ALL TABLES"
        if mode is PublicationMode.FILTERED:
            what = "TABLE " + ", ".join(table.sql for table in tables)
        root = "WITH (publish_via_partition_root = true)"
        _define(connection, options, f"CREATE PUBLICATION {name} FOR {what} {root}")
        return True
    members = {
        tuple(each)
        for each in connection.execute(
            "SELECT schemaname, tablename FROM pg_publication_tables WHERE pubname = %s",
            [options.publication],
        )
    }
    lacking = [table for table in tables if (table.schema, table.name) not in members]
    if not lacking:
        return False
    added = ", ".join(table.sql for table in lacking)
    if mode is PublicationMode.DISABLED:
        raise InvalidProgramError(
            f"the publication '{options.publication}' of {options.server} does not contain all tables of the source",
            detail=", ".join(map(str, lacking)),
            hint=f"ALTER PUBLICATION {name} ADD TABLE {added}",
        )
    _define(connection, options, f"ALTER PUBLICATION {name} ADD TABLE {added}")
    return True


def _define(connection: Any, options: CdcOptions, statement: str) -> None:
    import psycopg

    try:
        connection.execute(statement)
    except psycopg.errors.InsufficientPrivilege as error:
        raise ConfigurationError(
            f"cannot create or change the publication '{options.publication}' of {options.server}",
            detail=str(error).strip(),
            hint=f"run as the owner of the tables: {statement}",
        ) from error


def wait_for_writers(connection: Any, timeout_s: float) -> None:
    """Wait until all current transactions have ended: their changes may be in no publication."""
    (xmax,) = connection.execute(
        "SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint"
    ).fetchone()
    end = time.monotonic() + timeout_s
    while True:
        (xmin,) = connection.execute(
            "SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint"
        ).fetchone()
        if xmin >= xmax:
            return
        if time.monotonic() > end:
            raise InvalidProgramError(
                "transactions that began before the publication was changed are still open",
                detail=f"waited for {timeout_s:g} s; the oldest is {xmin}: "
                f"{describe_blockers(connection, connection.info.backend_pid)}",
                hint="end them: COMMIT PREPARED or ROLLBACK PREPARED '...', or pg_terminate_backend(...)",
            )
        time.sleep(_PAUSE_S)


def free_slot(
    connection: Any, options: CdcOptions, owner: str, stopped: Callable[[], bool]
) -> None:
    """Wait until the slot is free. A reader of the same job belongs to an earlier task attempt and is terminated."""
    (timeout,) = connection.execute(
        "SELECT setting::bigint FROM pg_settings WHERE name = 'wal_sender_timeout'"
    ).fetchone()
    end = time.monotonic() + timeout / 1000 + options.connect_timeout_s
    asked = None
    while not stopped():
        slot = find_slot(connection, options.slot)
        if slot is None or slot.holder is None:
            return
        if slot.holder_name == owner and slot.holder != asked:
            connection.execute("SELECT pg_terminate_backend(%s)", [slot.holder])
            asked = slot.holder
        if time.monotonic() > end:
            raise InvalidProgramError(
                f"the replication slot '{options.slot}' of {options.server} is in use",
                detail=f"process {slot.holder} of the server reads it for '{slot.holder_name}'",
                hint="each job needs its own slot: choose another slot_name, or stop the other reader",
            )
        time.sleep(_PAUSE_S)


def drop_slot(options: CdcOptions) -> list[str]:
    """Drop slot and publication, if they exist; return what was dropped."""
    dropped = []
    with connect(options, "penstock-cdc") as connection:
        if find_slot(connection, options.slot) is not None:
            connection.execute("SELECT pg_drop_replication_slot(%s)", [options.slot])
            dropped.append(f"replication slot {options.slot}")
        row = connection.execute(
            "SELECT 1 FROM pg_publication WHERE pubname = %s", [options.publication]
        ).fetchone()
        if row is not None and options.publication_mode is not PublicationMode.DISABLED:
            connection.execute(f"DROP PUBLICATION {quoted(options.publication)}")
            dropped.append(f"publication {options.publication}")
    return dropped
