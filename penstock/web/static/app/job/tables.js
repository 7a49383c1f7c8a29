// @ts-check
// Which tables of state there are, and how their cells read. Pure.
import { eventTime } from "../format.js";

/** @import { StateOperator, StateTable } from "../../../types.d.ts" */

/**
 * The tables of operators: one for each state, and one for the timers of an operator with keys.
 * @param {StateOperator[]} operators
 * @returns {StateTable[]}
 */
export function tables(operators) {
  return operators.flatMap((operator) => [
    ...operator.states.map((state) => ({
      operator,
      state,
      table: state.table ?? state.name,
      title: `${state.name}, of ${operator.name}`,
    })),
    ...(operator.states.some((state) => state.keyed)
      ? [{ operator, table: "timers", title: `Timers of ${operator.name}` }]
      : []),
  ]);
}

/**
 * Whether operators of the library remember it, rather than the user's code.
 * @param {StateTable} table
 */
export function isInternal(table) {
  return table.state?.internal ?? false;
}

const TIMES = /^(timestamp|start|end|watermark|fires_at|window_start|window_end)$/;
const LONGEST = 160;
const LONGEST_TITLE = 2000;

/**
 * A cell as text; `title` is what is shown when the mouse rests on it.
 * @param {unknown} value
 * @param {string} column
 * @returns {{text: string, title?: string, kind: "none" | "time" | "plain"}}
 */
export function cell(value, column) {
  if (value === null || value === undefined) return { text: "none", kind: "none" };
  if (typeof value === "number" && TIMES.test(column) && value > 1e11) {
    return { text: eventTime(value), title: String(value), kind: "time" };
  }
  const text = typeof value === "object" ? JSON.stringify(value) : String(value);
  if (text.length <= LONGEST) return { text, kind: "plain" };
  const title = text.slice(0, LONGEST_TITLE);
  return { text: `${text.slice(0, LONGEST)}…`, title, kind: "plain" };
}
