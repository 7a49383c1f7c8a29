// @ts-check
// Numbers, times and sizes as people read them. Pure.
/** @import { Figure, Tone } from "../../types.d.ts" */

// What "no watermark yet" and "end of input" are, about: JavaScript's numbers are not exact there.
const NONE = "–";
const LONG_MIN = -9223372036854775000;
const LONG_MAX = 9223372036854775000;

/**
 * @template T
 * @param {T} value
 * @returns {value is NonNullable<T>}
 */
export function known(value) {
  return value !== null && value !== undefined && !Number.isNaN(value);
}

/** @type {[number, string][]} */
const UNITS = [
  [1e12, "T"],
  [1e9, "G"],
  [1e6, "M"],
  [1e3, "k"],
];

/** @param {Figure} value */
export function count(value) {
  if (!known(value)) return NONE;
  const size = Math.abs(value);
  if (size < 10 && !Number.isInteger(value)) return value.toFixed(1);
  if (size < 10_000) return Math.round(value).toLocaleString("en-US");
  for (const [limit, unit] of UNITS) {
    if (size >= limit) return `${(value / limit).toFixed(size >= limit * 100 ? 0 : 1)} ${unit}`;
  }
  return String(value);
}

/** @param {Figure} value */
export function rate(value) {
  return known(value) ? `${count(value)}/s` : NONE;
}

/** @param {Figure} value */
export function bytes(value) {
  if (!known(value) || value < 0) return NONE;
  if (value < 1024) return `${Math.round(value)} B`;
  let unit = -1;
  do {
    value /= 1024;
    unit += 1;
  } while (value >= 1024 && unit < 4);
  return `${value.toFixed(value >= 100 ? 0 : 1)} ${["KiB", "MiB", "GiB", "TiB", "PiB"][unit]}`;
}

/** @param {Figure} ms */
export function duration(ms) {
  if (!known(ms) || ms < 0) return NONE;
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 10_000) return `${(ms / 1000).toFixed(1)} s`;
  const s = Math.floor(ms / 1000);
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min ${s % 60} s`;
  if (s < 86_400) return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`;
  return `${Math.floor(s / 86_400)} d ${Math.floor((s % 86_400) / 3600)} h`;
}

/** @param {Figure} value */
export function share(value) {
  if (!known(value)) return NONE;
  const percent = value * 100;
  return `${percent > 0 && percent < 1 ? "< 1" : Math.round(percent)} %`;
}

const two = (/** @type {number} */ n) => String(n).padStart(2, "0");

/** @param {Figure} ms */
export function clock(ms) {
  if (!known(ms) || ms <= 0) return NONE;
  const t = new Date(ms);
  return `${two(t.getHours())}:${two(t.getMinutes())}:${two(t.getSeconds())}`;
}

/** @param {Figure} ms */
export function moment(ms) {
  if (!known(ms) || ms <= 0) return NONE;
  const t = new Date(ms);
  return `${t.getFullYear()}-${two(t.getMonth() + 1)}-${two(t.getDate())} ${clock(ms)}`;
}

/**
 * Event time is the data's: it is shown in UTC, so that it is the same on every screen.
 * @param {Figure} ms
 */
export function eventTime(ms) {
  if (!hasWatermark(ms)) return known(ms) && ms >= LONG_MAX ? "end of input" : NONE;
  return new Date(ms).toISOString().slice(0, 19).replace("T", " ");
}

/**
 * @param {Figure} ms
 * @returns {ms is number}
 */
export function hasWatermark(ms) {
  return known(ms) && ms > LONG_MIN && ms < LONG_MAX;
}

const DAY = 86_400_000;

/**
 * How far event time is behind the clock; where it is, when the lag says nothing because the data
 * is of another day.
 * @param {Figure} ms
 * @param {number} now
 */
export function watermark(ms, now) {
  if (!hasWatermark(ms)) return known(ms) && ms >= LONG_MAX ? "end of input" : null;
  const lag = now - ms;
  return lag > DAY || lag < -DAY
    ? `at ${eventTime(ms).slice(5)}`
    : `${duration(Math.max(lag, 0))} behind`;
}

/** @param {string | null | undefined} id */
export function shortId(id) {
  return id ? id.slice(0, 8) : NONE;
}

/** @type {Record<string, Tone>} */
const TONES = {
  RUNNING: "ok",
  FINISHED: "info",
  COMPLETED: "ok",
  FAILED: "bad",
  FAILING: "bad",
  CANCELED: "",
  CANCELING: "warn",
  CANCELLING: "warn",
  RESTARTING: "warn",
  CREATED: "",
  INITIALIZING: "info",
  SCHEDULED: "",
  DEPLOYING: "info",
  SUSPENDED: "warn",
  RECONCILING: "warn",
  IN_PROGRESS: "info",
  SAVEPOINT: "info",
};

/**
 * @param {string} state
 * @returns {Tone}
 */
export function tone(state) {
  return TONES[state] ?? "";
}

/** @param {string | null | undefined} state */
export function words(state) {
  return state ? state.toLowerCase().replaceAll("_", " ") : NONE;
}

/**
 * @param {number} number
 * @param {string} one
 * @param {string} many
 */
export function plural(number, one, many = `${one}s`) {
  return `${count(number)} ${number === 1 ? one : many}`;
}
