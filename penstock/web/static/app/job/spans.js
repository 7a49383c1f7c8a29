// @ts-check
// When something was in which state. Pure.

/** @import { Subtask, Timestamps, Vertex } from "../../../types.d.ts" */
/** @typedef {{state: string, start: number, end: number}} Span */

const LAST = new Set(["FINISHED", "CANCELED", "FAILED"]);

/**
 * The states that were entered, in order. A time of 0 or less means: never.
 * @param {Timestamps} timestamps
 */
export function entered(timestamps) {
  return Object.entries(timestamps)
    .filter(([, time]) => time > 0)
    .sort(([, a], [, b]) => a - b);
}

/**
 * From when a state was entered to when the next one was; the last one lasts until now, unless
 * it is an end.
 * @param {Timestamps} timestamps
 * @param {number} now
 * @returns {Span[]}
 */
export function spans(timestamps, now) {
  const states = entered(timestamps);
  return states.map(([state, start], n) => {
    const end = states[n + 1]?.[1] ?? (LAST.has(state) ? start : now);
    return { state, start, end };
  });
}

/**
 * When the first subtask entered each state; of a vertex without subtasks, when it started and
 * ended.
 * @param {Pick<Vertex, "status" | "start-time" | "end-time">} vertex
 * @param {Pick<Subtask, "timestamps">[]} subtasks
 * @returns {Timestamps}
 */
export function firstTimes(vertex, subtasks) {
  /** @type {Timestamps} */
  const first = {};
  for (const subtask of subtasks) {
    for (const [state, time] of Object.entries(subtask.timestamps ?? {})) {
      if (time > 0) first[state] = Math.min(first[state] ?? Number.POSITIVE_INFINITY, time);
    }
  }
  if (Object.keys(first).length) return first;
  if (vertex["start-time"] <= 0) return {};
  return {
    RUNNING: vertex["start-time"],
    ...(vertex["end-time"] > 0 ? { [vertex.status]: vertex["end-time"] } : {}),
  };
}
