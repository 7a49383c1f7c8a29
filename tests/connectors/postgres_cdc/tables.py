"""A table of tests, and those who write to it."""

from __future__ import annotations

import random
import threading

import psycopg


def make_table(sql, rows, name="items", identity="FULL"):
    sql(f"CREATE TABLE {name} (id int PRIMARY KEY, v text, n numeric(10, 2))")
    sql(f"ALTER TABLE {name} REPLICA IDENTITY {identity}")
    sql(f"INSERT INTO {name} SELECT i, 'v' || i, i * 1.25 FROM generate_series(1, {rows}) i")


def rows_of(sql, name="items"):
    found = sql(f"SELECT id, v, n FROM {name}").fetchall()
    return {(id,): {"id": id, "v": v, "n": n} for id, v, n in found}


def reader_of_slot(sql):
    """Return the server's process that reads the slot of the test's database, None if there is none."""
    row = sql(
        "SELECT active_pid FROM pg_replication_slots WHERE database = current_database() AND active"
    ).fetchone()
    return row and row[0]


def confirmed_lsn(sql):
    """Return how far the slot of the test's database is confirmed."""
    (lsn,) = sql(
        "SELECT confirmed_flush_lsn::text FROM pg_replication_slots WHERE database = current_database()"
    ).fetchone()
    return lsn


class Writer(threading.Thread):
    """Changes rows all the time, also their keys, in transactions of which some are rolled back."""

    def __init__(self, url, seed, keys=400, pause=0.0):
        super().__init__(daemon=True)
        self.url, self.chance, self.keys = url, random.Random(str(seed)), keys
        self.pause = pause
        self.stopped = threading.Event()
        self.transactions = 0
        self.start()

    def run(self):
        with psycopg.connect(self.url) as connection:
            while not self.stopped.is_set():
                try:
                    for _ in range(self.chance.randint(1, 5)):
                        self.change(connection)
                except (psycopg.errors.IntegrityError, psycopg.errors.DeadlockDetected):
                    connection.rollback()  # of another writer
                if self.chance.random() < 0.1:
                    connection.rollback()
                else:
                    connection.commit()
                self.transactions += 1
                self.stopped.wait(self.pause)

    def change(self, connection):
        key, other = self.chance.randint(1, self.keys), self.chance.randint(1, self.keys)
        what = self.chance.random()
        if what < 0.3:
            connection.execute(
                "INSERT INTO items VALUES (%s, %s, %s) ON CONFLICT DO NOTHING", [key, "new", other]
            )
        elif what < 0.6:
            connection.execute("UPDATE items SET v = v || 'x', n = n + 1 WHERE id = %s", [key])
        elif what < 0.8:
            connection.execute("DELETE FROM items WHERE id = %s", [key])
        else:
            connection.execute(
                "UPDATE items SET id = %s WHERE id = %s AND NOT EXISTS (SELECT FROM items WHERE id = %s)",
                [other, key, other],
            )

    def stop(self):
        self.stopped.set()
        self.join()
