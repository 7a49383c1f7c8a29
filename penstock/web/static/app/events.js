// @ts-check
// Reads server-sent events from text that arrives in pieces. Pure.

/**
 * @typedef {{path: string, status: number, content: unknown}} News
 */

/**
 * Divides text into whole events and what is left for the next piece.
 * @param {string} text
 * @returns {{events: string[], rest: string}}
 */
export function splitEvents(text) {
  const events = text.split("\n\n");
  const rest = events.pop() ?? "";
  return { events, rest };
}

/**
 * The content of an event; null for a heartbeat.
 * @param {string} event
 * @returns {News | null}
 */
export function parseEvent(event) {
  const data = event
    .split("\n")
    .filter((line) => line.startsWith("data:"))
    .map((line) => line.slice(5).trim())
    .join("\n");
  return data ? JSON.parse(data) : null;
}

/**
 * The wait time after this many failures in a row.
 * @param {number} failures
 */
export function retryDelay(failures) {
  return Math.min(250 * 2 ** failures, 5000);
}
