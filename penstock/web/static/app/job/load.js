// @ts-check
// What the load of vertices means: colours and levels of back-pressure, and which vertex holds
// the others up. Pure.
// css/job.css mixes the colours of a vertex from --heat; css/base.css has --busy and --pressed,
// css/parts.css the colours of bars and levels, which ui.js draws.
// graph_parts.js draws vertices and the small map, back_pressure.js the tab. The load of a vertex
// is that of its worst subtask: jobmanager/metrics/live_metrics.py, sent by
// rest/resources/job_graph.py. The levels of subtasks come from rest/flink_json/vertices.py.
import { known, share } from "../format.js";

/** @import { Figure, Load, Vertex } from "../../../types.d.ts" */

/**
 * Busy is warm, back-pressured is violet, as in the bars; the stronger of the two gives the colour.
 * @param {Load} vertex
 * @returns {{colour: string, amount: number} | null} null while nothing was measured
 */
export function heat({ busy, backPressured }) {
  if (!known(busy)) return null;
  const pressure = backPressured ?? 0;
  return {
    colour: pressure > busy ? "var(--pressed)" : "var(--busy)",
    amount: Math.max(busy, pressure),
  };
}

const percent = (/** @type {number} */ part) => `${Math.round(part * 100)}%`;

/**
 * The style of a vertex in the graph.
 * @param {Load} vertex
 * @returns {Record<string, string>}
 */
export function heatStyle(vertex) {
  const found = heat(vertex);
  if (!found) return {};
  return {
    "--heat": found.colour,
    "--heat-share": percent(found.amount * 0.34),
    "--heat-edge": percent(Math.min(1, found.amount * 1.25)),
  };
}

/**
 * The colour of a vertex in the small map, which has no room for an edge.
 * @param {Load} vertex
 */
export function heatColour(vertex) {
  const found = heat(vertex);
  if (!found) return "var(--line-strong)";
  return `color-mix(in oklab, ${found.colour} ${percent(found.amount)}, var(--idle))`;
}

/**
 * The description of a vertex for screen readers.
 * @param {Vertex} vertex
 */
export function describe(vertex) {
  const load = known(vertex.busy)
    ? `, busy ${share(vertex.busy)}, back-pressured ${share(vertex.backPressured)}`
    : "";
  return `${vertex.name}, parallelism ${vertex.parallelism}, ${vertex.status.toLowerCase()}${load}`;
}

/**
 * Flink's levels of back-pressure.
 * @param {Figure} ratio
 */
export function level(ratio) {
  if (!known(ratio)) return undefined;
  if (ratio <= 0.1) return "ok";
  return ratio <= 0.5 ? "low" : "high";
}

/**
 * The busiest vertex; undefined if nothing was measured.
 * @template {Load} T
 * @param {T[]} vertices
 * @returns {T | undefined}
 */
export function busiest(vertices) {
  return vertices
    .filter((vertex) => known(vertex.busy))
    .sort((a, b) => (b.busy ?? 0) - (a.busy ?? 0))[0];
}

/**
 * The vertex that the others probably wait for: some wait, and it is the busiest of those that do
 * not.
 * @template {Load} T
 * @param {T[]} vertices
 * @returns {T | undefined}
 */
export function bottleneck(vertices) {
  const waits = (/** @type {T} */ vertex) => (vertex.backPressured ?? 0) > 0.1;
  if (!vertices.some(waits)) return undefined;
  return busiest(vertices.filter((vertex) => !waits(vertex)));
}
