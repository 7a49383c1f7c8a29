// @ts-check
import assert from "node:assert/strict";
import { test } from "node:test";
import * as format from "../../penstock/web/static/app/format.js";

/** @import { Figure } from "../../penstock/web/types.d.ts" */

const NONE = "–";
const LONG_MIN = -(2 ** 63);
const LONG_MAX = 2 ** 63;

/**
 * All cases are looked at, and all that differ are shown.
 * @param {(value: Figure) => string} shown
 * @param {[Figure, string][]} cases
 */
function check(shown, cases) {
  assert.deepEqual(
    cases.map(([value]) => [value, shown(value)]),
    cases,
  );
}

test("counts are short, and unknown ones are a dash", () => {
  check(format.count, [
    [null, NONE],
    [undefined, NONE],
    [Number.NaN, NONE],
    [0, "0"],
    [0.25, "0.3"],
    [9.96, "10.0"],
    [12.4, "12"],
    [9999, "9,999"],
    [10_000, "10.0 k"],
    [123_456, "123 k"],
    [1_500_000, "1.5 M"],
    [2e9, "2.0 G"],
    [3.25e12, "3.3 T"],
    [-20_000, "-20.0 k"],
  ]);
});

test("rates are counts per second", () => {
  check(format.rate, [
    [null, NONE],
    [0, "0/s"],
    [12_000, "12.0 k/s"],
  ]);
});

test("sizes are in binary units", () => {
  check(format.bytes, [
    [null, NONE],
    [-1, NONE],
    [0, "0 B"],
    [1023, "1023 B"],
    [1024, "1.0 KiB"],
    [1536, "1.5 KiB"],
    [150 * 1024, "150 KiB"],
    [1024 ** 2, "1.0 MiB"],
    [5 * 1024 ** 3, "5.0 GiB"],
    [1024 ** 6, "1024 PiB"],
  ]);
});

test("durations have the two largest units", () => {
  check(format.duration, [
    [undefined, NONE],
    [-5, NONE],
    [0, "0 ms"],
    [999, "999 ms"],
    [1000, "1.0 s"],
    [9999, "10.0 s"],
    [59_999, "59 s"],
    [60_000, "1 min 0 s"],
    [3_599_000, "59 min 59 s"],
    [3_600_000, "1 h 0 min"],
    [90_000_000, "1 d 1 h"],
  ]);
});

test("shares are percent, and little is not nothing", () => {
  check(format.share, [
    [null, NONE],
    [0, "0 %"],
    [0.004, "< 1 %"],
    [0.01, "1 %"],
    [0.996, "100 %"],
    [1, "100 %"],
  ]);
});

test("moments are in the reader's time zone", () => {
  const time = new Date(2024, 0, 5, 7, 8, 9).getTime();
  assert.equal(format.clock(time), "07:08:09");
  assert.equal(format.moment(time), "2024-01-05 07:08:09");
  check(format.clock, [
    [0, NONE],
    [null, NONE],
  ]);
  check(format.moment, [[-1, NONE]]);
});

test("event time is in UTC, and its two ends have names", () => {
  check(format.eventTime, [
    [null, NONE],
    [LONG_MIN, NONE],
    [LONG_MAX, "end of input"],
    [0, "1970-01-01 00:00:00"],
    [Date.UTC(2024, 1, 29, 12, 30, 1), "2024-02-29 12:30:01"],
  ]);
});

test("a watermark is a lag, unless the data is of another day", () => {
  const now = Date.UTC(2024, 5, 15, 12);
  assert.equal(format.watermark(null, now), null);
  assert.equal(format.watermark(LONG_MIN, now), null);
  assert.equal(format.watermark(LONG_MAX, now), "end of input");
  assert.equal(format.watermark(now - 2500, now), "2.5 s behind");
  assert.equal(format.watermark(now + 2500, now), "0 ms behind");
  assert.equal(format.watermark(Date.UTC(2024, 5, 1, 6), now), "at 06-01 06:00:00");
  assert.equal(format.watermark(Date.UTC(2024, 5, 17), now), "at 06-17 00:00:00");
});

test("states have a tone and read as words", () => {
  assert.equal(format.tone("RUNNING"), "ok");
  assert.equal(format.tone("FAILED"), "bad");
  assert.equal(format.tone("UNHEARD_OF"), "");
  assert.equal(format.words("IN_PROGRESS"), "in progress");
  assert.equal(format.words(undefined), NONE);
});

test("nouns agree with their number", () => {
  assert.equal(format.plural(1, "job"), "1 job");
  assert.equal(format.plural(0, "job"), "0 jobs");
  assert.equal(format.plural(12_000, "vertex", "vertices"), "12.0 k vertices");
});

test("ids are shortened", () => {
  assert.equal(format.shortId("0123456789abcdef"), "01234567");
  assert.equal(format.shortId(null), NONE);
});
