"""Patterns of DATE_FORMAT: what Java 17 shows for each letter, and what it refuses."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator

import pandas as pd
import pytest

from penstock.errors import PenstockError
from penstock.runtime.columnar.expressions.java_time import formatted
from penstock.sql.expr.java_date_patterns import parts_of
from penstock.table import EnvironmentSettings, TableEnvironment
from penstock.testing import MiniCluster
from tests.builders.cases import check_all
from tests.builders.tables import rows

TIMES = [
    pd.Timestamp("2024-03-05 07:08:09.123456789"),
    dt.datetime(2024, 12, 30),
    dt.datetime(2023, 1, 1, 12, 59, 59, 1),
    dt.datetime(2021, 1, 2, 23, 30, 5),
    dt.datetime(987, 7, 4, 15),
]
#: Pattern: what java.time.format.DateTimeFormatter shows of these times
SHOWN: dict[str, list[str]] = {
    "YYYYww": ["202410", "202501", "202301", "202101", "098727"],
    "y": ["2024", "2024", "2023", "2021", "987"],
    "yy": ["24", "24", "23", "21", "87"],
    "yyy": ["2024", "2024", "2023", "2021", "987"],
    "yyyyy": ["02024", "02024", "02023", "02021", "00987"],
    "YY": ["24", "25", "23", "21", "87"],
    "YYY": ["2024", "2025", "2023", "2021", "987"],
    "YYYYY": ["02024", "02025", "02023", "02021", "00987"],
    "MMMMM": ["M", "D", "J", "J", "J"],
    "LLLLL": ["M", "D", "J", "J", "J"],
    "D": ["65", "365", "1", "2", "185"],
    "DD": ["65", "365", "01", "02", "185"],
    "DDD": ["065", "365", "001", "002", "185"],
    "d": ["5", "30", "1", "2", "4"],
    "QQQQQ": ["1", "4", "1", "1", "3"],
    "qqqqq": ["1", "4", "1", "1", "3"],
    "w": ["10", "1", "1", "1", "27"],
    "ww": ["10", "01", "01", "01", "27"],
    "W": ["2", "5", "1", "1", "1"],
    "E": ["Tue", "Mon", "Sun", "Sat", "Wed"],
    "EEEEE": ["T", "M", "S", "S", "W"],
    "e": ["3", "2", "1", "7", "4"],
    "ee": ["03", "02", "01", "07", "04"],
    "eee": ["Tue", "Mon", "Sun", "Sat", "Wed"],
    "eeeee": ["T", "M", "S", "S", "W"],
    "c": ["3", "2", "1", "7", "4"],
    "ccc": ["Tue", "Mon", "Sun", "Sat", "Wed"],
    "cccc": ["Tuesday", "Monday", "Sunday", "Saturday", "Wednesday"],
    "ccccc": ["T", "M", "S", "S", "W"],
    "F": ["5", "2", "1", "2", "4"],
    "a": ["AM", "AM", "PM", "PM", "PM"],
    "h": ["7", "12", "12", "11", "3"],
    "hh": ["07", "12", "12", "11", "03"],
    "K": ["7", "0", "0", "11", "3"],
    "KK": ["07", "00", "00", "11", "03"],
    "k": ["7", "24", "12", "23", "15"],
    "kk": ["07", "24", "12", "23", "15"],
    "H": ["7", "0", "12", "23", "15"],
    "HH": ["07", "00", "12", "23", "15"],
    "m": ["8", "0", "59", "30", "0"],
    "s": ["9", "0", "59", "5", "0"],
    "S": ["1", "0", "0", "0", "0"],
    "SSSSSSSSS": ["123456789", "000000000", "000001000", "000000000", "000000000"],
    "A": ["25689123", "0", "46799000", "84605000", "54000000"],
    "AAAA": ["25689123", "0000", "46799000", "84605000", "54000000"],
    "AAAAAAAAAAAA": [
        "000025689123",
        "000000000000",
        "000046799000",
        "000084605000",
        "000054000000",
    ],
    "n": ["123456789", "0", "1000", "0", "0"],
    "nn": ["123456789", "00", "1000", "00", "00"],
    "nnnnnnnnnnnn": [
        "000123456789",
        "000000000000",
        "000000001000",
        "000000000000",
        "000000000000",
    ],
    "N": ["25689123456789", "0", "46799000001000", "84605000000000", "54000000000000"],
    "NN": ["25689123456789", "00", "46799000001000", "84605000000000", "54000000000000"],
    "G": ["AD", "AD", "AD", "AD", "AD"],
    "GG": ["AD", "AD", "AD", "AD", "AD"],
    "GGG": ["AD", "AD", "AD", "AD", "AD"],
    "GGGG": ["Anno Domini", "Anno Domini", "Anno Domini", "Anno Domini", "Anno Domini"],
    "GGGGG": ["A", "A", "A", "A", "A"],
    "g": ["60374", "60674", "59945", "59216", "-318262"],
    "gg": ["60374", "60674", "59945", "59216", "-318262"],
    "ggggggg": ["0060374", "0060674", "0059945", "0059216", "-0318262"],
    "pppH": ["  7", "  0", " 12", " 23", " 15"],
    "ppH": [" 7", " 0", "12", "23", "15"],
    "'at' HH": ["at 07", "at 00", "at 12", "at 23", "at 15"],
    "''": ["'", "'", "'", "'", "'"],
    "'o''clock'": ["o'clock", "o'clock", "o'clock", "o'clock", "o'clock"],
    "[HH]": ["07", "00", "12", "23", "15"],
    "HH[:mm]": ["07:08", "00:00", "12:59", "23:30", "15:00"],
    "[": ["", "", "", "", ""],
    "B": ["in the morning", "midnight", "in the afternoon", "at night", "in the afternoon"],
    "BBBB": ["in the morning", "midnight", "in the afternoon", "at night", "in the afternoon"],
    "BBBBB": ["in the morning", "mi", "in the afternoon", "at night", "in the afternoon"],
    "u": ["2024", "2024", "2023", "2021", "987"],
    "uu": ["24", "24", "23", "21", "87"],
    "uuu": ["2024", "2024", "2023", "2021", "987"],
    "uuuu": ["2024", "2024", "2023", "2021", "0987"],
    "uuuuu": ["02024", "02024", "02023", "02021", "00987"],
    "yyyy'T'HH": ["2024T07", "2024T00", "2023T12", "2021T23", "0987T15"],
    "ppppyyyy": ["2024", "2024", "2023", "2021", "0987"],
    "HH:mm:ss.SSS": [
        "07:08:09.123",
        "00:00:00.000",
        "12:59:59.000",
        "23:30:05.000",
        "15:00:00.000",
    ],
    "%H": ["%7", "%0", "%12", "%23", "%15"],
}
#: Patterns that it refuses, or that a local time has no value for
REFUSED = [
    "MMMMMM",
    "DDDD",
    "ddd",
    "QQQQQQ",
    "www",
    "WW",
    "EEEEEE",
    "eeeeee",
    "cc",
    "FF",
    "aa",
    "hhh",
    "KKK",
    "kkk",
    "HHH",
    "mmm",
    "sss",
    "SSSSSSSSSS",
    "AAAAAAAAAAAAAAAAAAAA",
    "NNNNNNNNNNNNNNNNNNNN",
    "GGGGGG",
    "V",
    "VV",
    "v",
    "vvvv",
    "z",
    "zzzz",
    "O",
    "X",
    "x",
    "Z",
    "p",
    "]",
    "BB",
    "BBBBBB",
    "b",
    "f",
    "i",
    "I",
    "J",
    "l",
    "r",
    "R",
    "t",
    "T",
    "U",
    "j",
    "C",
    "P",
    "#",
    "{",
    "}",
    "'x",
    "yyyyyyyyyyyyyyyyyyyy",
]

#: Pattern: what java.text.SimpleDateFormat shows of these seconds in Berlin
SECONDS = [0, 1_709_622_489, 1_735_516_800, 1_460_000_000]
SHOWN_SIMPLY: dict[str, list[str]] = {
    "u": ["4", "2", "1", "4"],
    "uu": ["04", "02", "01", "04"],
    "y": ["1970", "2024", "2024", "2016"],
    "yyy": ["1970", "2024", "2024", "2016"],
    "yyyy": ["1970", "2024", "2024", "2016"],
    "yyyyyy": ["001970", "002024", "002024", "002016"],
    "M": ["1", "3", "12", "4"],
    "MMM": ["Jan", "Mar", "Dec", "Apr"],
    "MMMMM": ["January", "March", "December", "April"],
    "LLLL": ["January", "March", "December", "April"],
    "D": ["1", "65", "365", "98"],
    "DDDDD": ["00001", "00065", "00365", "00098"],
    "F": ["1", "1", "5", "1"],
    "W": ["1", "2", "5", "2"],
    "WW": ["01", "02", "05", "02"],
    "www": ["001", "010", "001", "015"],
    "E": ["Thu", "Tue", "Mon", "Thu"],
    "EEEEEE": ["Thursday", "Tuesday", "Monday", "Thursday"],
    "a": ["AM", "AM", "AM", "AM"],
    "aaa": ["AM", "AM", "AM", "AM"],
    "G": ["AD", "AD", "AD", "AD"],
    "GGGG": ["AD", "AD", "AD", "AD"],
    "HHH": ["001", "008", "001", "005"],
    "kk": ["01", "08", "01", "05"],
    "K": ["1", "8", "1", "5"],
    "hhh": ["001", "008", "001", "005"],
    "mmm": ["000", "008", "000", "033"],
    "S": ["0", "0", "0", "0"],
    "SSSS": ["0000", "0000", "0000", "0000"],
    "Z": ["+0100", "+0100", "+0100", "+0200"],
    "ZZZZ": ["+0100", "+0100", "+0100", "+0200"],
    "X": ["+01", "+01", "+01", "+02"],
    "XX": ["+0100", "+0100", "+0100", "+0200"],
    "XXX": ["+01:00", "+01:00", "+01:00", "+02:00"],
    "[yyyy][MM]": ["[1970][01]", "[2024][03]", "[2024][12]", "[2016][04]"],
    "yyyy-MM-dd'T'HH:mm:ss.SSS": [
        "1970-01-01T01:00:00.000",
        "2024-03-05T08:08:09.000",
        "2024-12-30T01:00:00.000",
        "2016-04-07T05:33:20.000",
    ],
    "''yy''": ["'70'", "'24'", "'24'", "'16'"],
    "E, dd MMM yyyy": [
        "Thu, 01 Jan 1970",
        "Tue, 05 Mar 2024",
        "Mon, 30 Dec 2024",
        "Thu, 07 Apr 2016",
    ],
}
REFUSED_SIMPLY = [
    "e",
    "c",
    "Q",
    "q",
    "n",
    "N",
    "A",
    "B",
    "g",
    "p",
    "V",
    "x",
    "O",
    "v",
    "XXXX",
    "a'b",
    "b",
    "T",
]


def test_patterns_show_what_java_shows() -> None:
    def check(pattern: str) -> None:
        assert [formatted(time, pattern) for time in TIMES] == SHOWN[pattern]

    check_all({pattern: pattern for pattern in SHOWN}, check)


def test_patterns_that_java_refuses_are_refused() -> None:
    def check(pattern: str) -> None:
        with pytest.raises(ValueError, match=r"."):
            parts_of(pattern)

    check_all({pattern: pattern for pattern in REFUSED}, check)


def test_a_pattern_is_refused_before_the_job_runs() -> None:
    env = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    env.create_temporary_view("v", env.sql_query("SELECT TIMESTAMP '2024-01-01 00:00:00' AS t"))
    for query in ("SELECT DATE_FORMAT(t, 'jj') FROM v", "SELECT FROM_UNIXTIME(1, 'yyyy VV')"):
        with pytest.raises(PenstockError, match="is not a valid date and time pattern"):
            env.sql_query(query)
    env.sql_query("SELECT DATE_FORMAT(t, 'YYYYww') FROM v")


@pytest.fixture
def berlin() -> Iterator[TableEnvironment]:
    with MiniCluster():
        env = TableEnvironment.create(EnvironmentSettings.in_batch_mode())
        env.get_config().set("parallelism.default", "1")
        env.get_config().set("table.local-time-zone", "Europe/Berlin")
        yield env


def test_seconds_are_shown_as_simple_date_format_shows_them(berlin: TableEnvironment) -> None:
    quoted = {pattern: pattern.replace("'", "''") for pattern in SHOWN_SIMPLY}
    columns = [f"FROM_UNIXTIME(s, '{each}')" for each in quoted.values()]
    values = ", ".join(f"CAST({each} AS BIGINT)" for each in SECONDS)
    query = f"SELECT {', '.join(columns)} FROM (VALUES {values}) AS T(s)"
    shown = dict(zip(quoted, zip(*rows(berlin.sql_query(query)), strict=True), strict=True))

    def check(pattern: str) -> None:
        assert list(shown[pattern]) == SHOWN_SIMPLY[pattern]

    check_all({pattern: pattern for pattern in SHOWN_SIMPLY}, check)


def test_patterns_that_simple_date_format_refuses_are_refused() -> None:
    def check(pattern: str) -> None:
        with pytest.raises(ValueError, match=r"."):
            parts_of(pattern, simple=True)

    check_all({pattern: pattern for pattern in [*REFUSED_SIMPLY, "z"]}, check)


def test_a_text_is_shown_as_simple_date_format_shows_it(berlin: TableEnvironment) -> None:
    query = (
        "SELECT DATE_FORMAT(s, 'u SSS XXX'), DATE_FORMAT(s, p), DATE_FORMAT(TO_TIMESTAMP(s), 'uuuu')"
        " FROM (VALUES ('2024-07-05 07:08:09.123', 'u Z')) AS T(s, p)"
    )
    assert rows(berlin.sql_query(query)) == [("5 000 +02:00", "5 +0200", "2024")]


def test_a_year_of_five_digits_has_a_sign() -> None:
    last = dt.datetime(9999, 12, 31)
    assert [formatted(last, each) for each in ("Y", "YYYY", "YYYYY", "yyyy")] == [
        "10000",
        "+10000",
        "10000",
        "9999",
    ]
