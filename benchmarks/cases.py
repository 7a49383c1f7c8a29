"""The jobs that are compared, and what each must write, worked out a second time with Arrow."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from benchmarks.data import DataSet
from benchmarks.runner import Totals

COLUMNS = ["auction", "bidder", "price", "channel", "ts"]


def read_bids(source: Path) -> pa.Table:
    options = pa.csv.ReadOptions(column_names=COLUMNS)
    files = sorted(source.glob("*.csv"))
    return pa.concat_tables([pa.csv.read_csv(file, read_options=options) for file in files])


def expect_windows(source: Path) -> Totals:
    bids = read_bids(source)
    bids = bids.filter(pc.greater(bids["price"], 100))
    ts = bids["ts"].to_numpy()
    bids = bids.append_column("window", pa.array(ts - ts % 10_000))
    windows = bids.group_by(["auction", "window"]).aggregate([("price", "sum")]).num_rows
    return Totals(windows, pc.sum(bids["price"]).as_py(), bids.num_rows)


def expect_maps(source: Path) -> Totals:
    price = read_bids(source)["price"].to_numpy()
    return Totals(len(price), int(((price * 2 + 7) % 1_000_003).sum()), 0)


def expect_totals(source: Path) -> Totals:
    bids = read_bids(source)
    auctions = np.unique(bids["auction"].to_numpy())
    return Totals(len(auctions), pc.sum(bids["price"]).as_py(), int(auctions.sum()))


def expect_fees(source: Path) -> Totals:
    price = read_bids(source)["price"].to_numpy()
    return Totals(len(price), int(price.sum()), int((price // 100).sum()))


def expect_balances(source: Path) -> Totals:
    bids = read_bids(source)
    price, odd = bids["price"].to_numpy(), bids["bidder"].to_numpy() % 2
    auctions = np.unique(bids["auction"].to_numpy())
    return Totals(len(auctions), int((price * (1 - 2 * odd)).sum()), int(auctions.sum()))


def expect_rule_fees(source: Path) -> Totals:
    bids = read_bids(source)
    auctions = np.unique(bids["auction"].to_numpy())
    fees = 0
    for channel, percent in {"Google": 3, "Facebook": 5, "Baidu": 2, "Apple": 30}.items():
        price = bids.filter(pc.equal(bids["channel"], channel))["price"].to_numpy()
        fees += int((price * percent // 100).sum())
    return Totals(len(auctions), fees, int(auctions.sum()))


def expect_answers(source: Path) -> Totals:
    bids = read_bids(source)
    # One number per bid, ordered by auction and then by time: partners are a range of the sorted numbers.
    places = (bids["auction"].to_numpy() << 42) + bids["ts"].to_numpy()
    price, odd = bids["price"].to_numpy(), bids["bidder"].to_numpy() % 2 == 1
    order = np.argsort(places[odd])
    partners = places[odd][order]
    first = np.searchsorted(partners, places[~odd])
    last = np.searchsorted(partners, places[~odd] + 2_000, side="right")

    def sums(values: np.ndarray) -> int:
        """Add up a column over the partners of all left bids."""
        before = np.concatenate([[0], np.cumsum(values[odd][order])])
        return int((before[last] - before[first]).sum())

    pairs = last - first
    prices = int((price[~odd] * pairs).sum()) + sums(price)
    delays = sums(bids["ts"].to_numpy()) - int((bids["ts"].to_numpy()[~odd] * pairs).sum())
    return Totals(int(pairs.sum()), prices, delays)


def expect_frauds(source: Path) -> Totals:
    """Match every large payment with the first foreign one after it on the card, if that is within 10 minutes."""
    bids = read_bids(source).sort_by([("auction", "ascending"), ("ts", "ascending")])
    card, party, price, ts = (
        bids[name].to_numpy() for name in ("auction", "bidder", "price", "ts")
    )
    foreign = np.flatnonzero(party % 20 == 0)
    large = np.flatnonzero(price // 190 > 5000)
    following = np.searchsorted(foreign, large, side="right")
    large, following = large[following < len(foreign)], following[following < len(foreign)]
    after = foreign[following]
    matches = (card[after] == card[large]) & (ts[after] - ts[large] < 600_000)
    return Totals(
        int(matches.sum()), int(party[large][matches].sum()), int(price[after][matches].sum())
    )


@dataclass(frozen=True)
class Case:
    """A job on a data set.

    `capped` is the part of the data that PyFlink gets, so that it ends in minutes. `without` are engines that cannot run it.
    """

    title: str
    script: str
    data: DataSet
    capped: DataSet
    expect: Callable[[Path], Totals]
    sql: str | None = None
    without: tuple[str, ...] = ()


def cases(scale: float, cap: int) -> list[Case]:
    """All cases; `scale` shrinks the data for a quick look, `cap` is PyFlink's number of records."""

    def case(
        title: str,
        script: str,
        records: int,
        auctions: int,
        expect: Callable[[Path], Totals],
        sql: str | None = None,
        limit: int = cap,
        without: tuple[str, ...] = (),
    ) -> Case:
        data = DataSet(int(records * scale), auctions)
        capped = DataSet(min(data.records, int(limit * scale)), auctions)
        return Case(title, script, data, capped, expect, sql, without)

    m = 1_000_000
    sql = "windowed_bids_sql"
    return [
        case("windows, 100 keys", "windowed_bids", m, 100, expect_windows, sql),
        case("windows, 10 000 keys", "windowed_bids", 2 * m, 10_000, expect_windows, sql),
        case("five maps", "stateless_maps", m, 100, expect_maps, limit=m),
        case("state and timers", "state_and_timer", m, 100, expect_totals),
        case("connected streams", "connected", m, 100, expect_balances),
        case("broadcast rules", "broadcast_rules", m, 100, expect_rule_fees),
        case(
            "interval join",
            "interval_join",
            m,
            1_000,
            expect_answers,
            without=("PyFlink, process", "PyFlink, thread"),  # it has none
        ),
        case(
            "pattern (CEP)",
            "cep_fraud",
            m,
            10_000,
            expect_frauds,
            "cep_fraud_sql",
            without=("PyFlink, process", "PyFlink, thread"),  # it has none
        ),
        case(
            "lookups of 5 ms",
            "async_lookup",
            m // 5,
            100,
            expect_fees,
            limit=m // 20,
            without=("PyFlink, thread",),  # it refuses asynchronous functions
        ),
    ]
