"""State as a format of Spark: `spark.read.format("penstock")`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from penstock.errors import ArgumentError
from penstock.state.reading import read
from penstock.state.tables import SnapshotTableReader

FORMAT: Final = "penstock"
_OPTIONS: Final = ("path", "operator", "state", "explode")


def register(session: Any = None) -> None:
    """Make the format `penstock` known to a SparkSession, by default that of this process.

    Then `spark.read.format("penstock").options(operator="spending", state="total").load("checkpoints/<job id>")` is the state of a
    checkpoint or savepoint as a DataFrame, also in SQL: CREATE TABLE ... USING penstock.
    """
    from penstock.spark.table_data_source import register_format

    register_format(session, FORMAT, open_table)


def open_table(options: Mapping[str, str]) -> tuple[Sequence[Any], SnapshotTableReader]:
    """Return the parts of the state that options name, and what reads them."""
    given = {name.lower(): value for name, value in options.items()}
    unknown = sorted(set(given) - set(_OPTIONS))
    missing = [name for name in _OPTIONS[:3] if not given.get(name)]
    if unknown or missing:
        what = f"unknown option '{unknown[0]}'" if unknown else f"option '{missing[0]}' is missing"
        raise ArgumentError(
            f"{what} for format '{FORMAT}'",
            detail=f"it has the options {', '.join(_OPTIONS)}",
            hint="path is the directory of a job, checkpoint or savepoint; operator the uid or name; state its name",
        )
    explode = given.get("explode", "false").lower()
    if explode not in {"true", "false"}:
        raise ArgumentError(
            f"invalid value '{given['explode']}' for option 'explode' of format '{FORMAT}'",
            hint="valid values are true, false",
        )
    snapshot = read(given["path"])
    table = snapshot.state(given["operator"], given["state"], explode=explode == "true")
    return table.parts, table.reader()
