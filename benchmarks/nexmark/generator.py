"""The events of Nexmark, in columns: the same rows for the same arguments, on every machine.

Of 50 events one is a person, three are auctions and 46 are bids. Who bids on what, prices, hot auctions, hot bidders and hot sellers follow the distributions of
Nexmark's own generator; texts are as long as there. One chunk has its own seed, so a data set is a prefix of every larger one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import polars as pl

Ints = npt.NDArray[np.int64]

CHUNK: Final = 500_000  # events; a multiple of ROUND
ROUND: Final = 50  # events, of which
AUCTIONS: Final = 3
START_MS: Final = 1_700_000_000_000

FIRST_ID: Final = 1_000
FIRST_CATEGORY: Final = 10
CATEGORIES: Final = 5
ACTIVE_PEOPLE: Final = 1_000
PERSON_LEAD: Final = 10
AUCTIONS_IN_FLIGHT: Final = 100
AUCTION_LEAD: Final = 10
HOT_GROUP: Final = 100  # one of so many ids is hot
HOT_AUCTIONS: Final = 2  # 1 of 2 bids is on another auction than the hot one
HOT_PEOPLE: Final = 4  # 1 of 4 bids and auctions is of others than the hot bidder or seller
CHANNELS: Final = 10_000

STATES: Final = ("AZ", "CA", "ID", "OR", "WA", "WY")
CITIES: Final = (
    "Phoenix", "Los Angeles", "San Francisco", "Boise", "Portland", "Bend", "Redmond", "Seattle", "Kent", "Cheyenne",
)  # fmt: skip
FIRST_NAMES: Final = (
    "Peter", "Paul", "Luke", "John", "Saul", "Vicky", "Kate", "Julie", "Sarah", "Deiter", "Walter",
)  # fmt: skip
LAST_NAMES: Final = (
    "Shultz",
    "Abrams",
    "Spencer",
    "White",
    "Bartels",
    "Walton",
    "Smith",
    "Jones",
    "Noris",
)
HOT_CHANNELS: Final = ("Google", "Facebook", "Baidu", "Apple")
LETTERS: Final = np.frombuffer(b"abcdefghijklmnopqrstuvwxyz", dtype=np.uint8)


@dataclass(frozen=True)
class Events:
    """Some events, by kind."""

    person: pl.DataFrame
    auction: pl.DataFrame
    bid: pl.DataFrame


@dataclass(frozen=True)
class Nexmark:
    """`events` events, so many per second of event time."""

    events: int
    rate: int = 10_000
    seed: int = 7

    def chunks(self) -> list[range]:
        """Return the numbers of the events, chunk by chunk."""
        return [
            range(start, min(start + CHUNK, self.events)) for start in range(0, self.events, CHUNK)
        ]

    def chunk(self, numbers: range) -> Events:
        """Return the events with these numbers."""
        random = np.random.default_rng((self.seed, numbers.start))
        found = np.arange(numbers.start, numbers.stop, dtype=np.int64)
        place = found % ROUND
        return Events(
            self._people(random, found[place == 0]),
            self._auctions(random, found[(place > 0) & (place <= AUCTIONS)]),
            self._bids(random, found[place > AUCTIONS]),
        )

    def _times(self, numbers: Ints) -> pl.Series:
        return pl.Series(self._millis(numbers)).cast(pl.Datetime("ms"))

    def _millis(self, numbers: Ints) -> Ints:
        return START_MS + numbers * 1_000 // self.rate

    def _people(self, random: np.random.Generator, numbers: Ints) -> pl.DataFrame:
        n = len(numbers)
        names = _chosen(random, FIRST_NAMES, n) + " " + _chosen(random, LAST_NAMES, n)
        cards = [_digits(random, n, 4) for _ in range(4)]
        emails = _text(random, n, 7) + "@" + _text(random, n, 5) + ".com"
        return pl.DataFrame(
            {
                "id": _last_person(numbers) + FIRST_ID,
                "name": names,
                "emailAddress": emails,
                "creditCard": cards[0] + " " + cards[1] + " " + cards[2] + " " + cards[3],
                "city": _chosen(random, CITIES, n),
                "state": _chosen(random, STATES, n),
                "dateTime": self._times(numbers),
                "extra": _text(random, n, 120),
            }
        )

    def _auctions(self, random: np.random.Generator, numbers: Ints) -> pl.DataFrame:
        n = len(numbers)
        initial = _prices(random, n)
        hot = random.integers(0, HOT_PEOPLE, n) > 0
        seller = np.where(
            hot, _last_person(numbers) // HOT_GROUP * HOT_GROUP, _some_person(random, numbers)
        )
        times = self._millis(numbers)
        ahead = self._millis(numbers + AUCTIONS_IN_FLIGHT * ROUND // AUCTIONS) - times
        length = 1 + (random.random(n) * np.maximum(ahead * 2, 1)).astype(np.int64)
        return pl.DataFrame(
            {
                "id": _last_auction(numbers) + FIRST_ID,
                "itemName": _text(random, n, 20),
                "description": _text(random, n, 100),
                "initialBid": initial,
                "reserve": initial + _prices(random, n),
                "dateTime": self._times(numbers),
                "expires": pl.Series(times + length).cast(pl.Datetime("ms")),
                "seller": seller + FIRST_ID,
                "category": FIRST_CATEGORY + random.integers(0, CATEGORIES, n),
                "extra": _text(random, n, 200),
            }
        )

    def _bids(self, random: np.random.Generator, numbers: Ints) -> pl.DataFrame:
        n = len(numbers)
        auction, person = _last_auction(numbers), _last_person(numbers)
        oldest = np.maximum(auction - AUCTIONS_IN_FLIGHT, 0)
        some = oldest + random.integers(0, auction - oldest + 1 + AUCTION_LEAD)
        hot_auction = random.integers(0, HOT_AUCTIONS, n) > 0
        hot_bidder = random.integers(0, HOT_PEOPLE, n) > 0
        channel, url = _channels(random, n)
        return pl.DataFrame(
            {
                "auction": np.where(hot_auction, auction // HOT_GROUP * HOT_GROUP, some) + FIRST_ID,
                "bidder": np.where(
                    hot_bidder, person // HOT_GROUP * HOT_GROUP + 1, _some_person(random, numbers)
                )
                + FIRST_ID,
                "price": _prices(random, n),
                "channel": channel,
                "url": url,
                "dateTime": self._times(numbers),
                "extra": _text(random, n, 30),
            }
        )


def _last_person(numbers: Ints) -> Ints:
    """Return the newest person at an event."""
    return numbers // ROUND


def _last_auction(numbers: Ints) -> Ints:
    """Return the newest auction at an event."""
    place = np.clip(numbers % ROUND, 0, AUCTIONS)
    newest: Ints = np.maximum(numbers // ROUND * AUCTIONS + place - 1, 0)
    return newest


def _some_person(random: np.random.Generator, numbers: Ints) -> Ints:
    """Return one of the newest people, or of those that come soon."""
    people = _last_person(numbers) + 1
    active = np.minimum(people, ACTIVE_PEOPLE)
    found: Ints = people - active + random.integers(0, active + PERSON_LEAD)
    return found


def _prices(random: np.random.Generator, n: int) -> Ints:
    """Return prices in cents, as many between 1 and 10 as between 100 000 and 1 000 000."""
    return np.rint(np.power(10.0, random.random(n) * 6) * 100).astype(np.int64)


def _chosen(random: np.random.Generator, texts: tuple[str, ...], n: int) -> pl.Series:
    return pl.Series(texts).gather(random.integers(0, len(texts), n))


def _text(random: np.random.Generator, n: int, length: int) -> pl.Series:
    """Return texts of letters, all of one length."""
    return _strings(LETTERS[random.integers(0, len(LETTERS), (n, length), dtype=np.uint8)])


def _digits(random: np.random.Generator, n: int, length: int) -> pl.Series:
    return _strings(
        (random.integers(0, 10, (n, length), dtype=np.uint8) + ord("0")).astype(np.uint8)
    )


def _strings(characters: npt.NDArray[np.uint8]) -> pl.Series:
    """Return one text per line of characters, without a Python object for each."""
    n, length = characters.shape
    joined = np.empty((n, length + 1), dtype=np.uint8)
    joined[:, :length] = characters
    joined[:, length] = ord("\n")
    text = joined.tobytes().decode("ascii")
    return (
        pl.Series([text]).str.strip_suffix("\n").str.split("\n").explode()
        if n
        else pl.Series([], dtype=pl.String)
    )


def _channels(random: np.random.Generator, n: int) -> tuple[pl.Series, pl.Series]:
    """Return channels and links: half of the bids come through four of them, whose links are always the same."""
    number = random.integers(0, CHANNELS, CHANNELS + 1)
    base = _links(random, CHANNELS + len(HOT_CHANNELS))
    channel_id = pl.Series(number[:CHANNELS]).cast(pl.String)
    has_id = pl.Series(random.integers(0, 10, CHANNELS) > 0)
    links = (
        pl.DataFrame({"base": base[:CHANNELS], "id": channel_id, "has": has_id})
        .select(
            pl.when("has").then(pl.col("base") + "&channel_id=" + pl.col("id")).otherwise("base")
        )
        .to_series()
    )
    names = pl.concat(
        [pl.Series([f"channel-{i}" for i in range(CHANNELS)]), pl.Series(HOT_CHANNELS)]
    )
    all_links = pl.concat([links, base[CHANNELS:]])
    cold = random.integers(0, CHANNELS, n)
    hot = CHANNELS + random.integers(0, len(HOT_CHANNELS), n)
    at = np.where(random.integers(0, 2, n) > 0, hot, cold)
    return names.gather(at), all_links.gather(at)


def _links(random: np.random.Generator, n: int) -> pl.Series:
    parts = [_text(random, n, 5) for _ in range(3)]
    path = parts[0] + "/" + parts[1] + "/" + parts[2]
    return "https://www.nexmark.com/" + path + "/item.htm?query=1"
