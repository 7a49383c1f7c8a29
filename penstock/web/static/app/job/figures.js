// @ts-check
// The figures of a job at a glance, and those of its charts. Pure.
import { bytes, count, duration, eventTime, hasWatermark, known, rate, share } from "../format.js";
import { busiest } from "./load.js";

/** @import { Dropped, Figure, Job, Sample, Series, Vertex } from "../../../types.d.ts" */
/** @typedef {{name: string, value: string, unit?: string, title?: string}} Item */
/**
 * @typedef {object} ChartFigure
 * @property {string} name
 * @property {(vertex: Vertex, time: number) => Figure} of
 * @property {(value: Figure) => string} format
 * @property {number} [most] where the scale ends at least
 * @property {boolean} [highest] the figure of the job is that of its highest vertex, not the sum
 */

/**
 * @param {Job} job
 * @param {number} now
 * @returns {Item[]}
 */
export function glance(job, now) {
  const records = job.vertices
    .filter((vertex) => vertex.source)
    .map((vertex) => vertex.recordsOutPerSecond)
    .filter(known);
  const hottest = busiest(job.vertices);
  const completed = job.checkpoint?.completed;
  /** @type {Item[]} */
  const items = [
    {
      name: "Duration",
      value: duration(job["end-time"] > 0 ? job.duration : now - job["start-time"]),
    },
    {
      name: "Records from sources",
      value: records.length ? rate(records.reduce((a, b) => a + b, 0)) : "–",
    },
    {
      name: "Busiest",
      value: share(hottest?.busy),
      unit: hottest?.name,
      title: hottest?.name,
    },
    {
      name: "Last checkpoint",
      value: completed ? duration(job.checkpoint?.duration) : "–",
      unit: completed ? `${duration(Math.max(0, now - completed))} ago` : "none yet",
    },
    { name: "Restarts", value: count(job.restarts) },
  ];
  if (job.latency) {
    const { p50, p99 } = job.latency;
    items.push({ name: "Latency, p99", value: duration(p99), unit: `p50 ${duration(p50)}` });
  }
  const late = (job.dropped ?? []).filter(({ metric }) => metric === LATE);
  const others = (job.dropped ?? []).filter(({ metric }) => metric !== LATE);
  if (late.length) items.push(droppedItem("Dropped as late", late));
  if (others.length) items.push(droppedItem("Dropped otherwise", others));
  return items;
}

const LATE = "numLateRecordsDropped";

/**
 * @param {string} name
 * @param {Dropped[]} dropped
 * @returns {Item}
 */
function droppedItem(name, dropped) {
  const total = dropped.reduce((sum, each) => sum + each.dropped, 0);
  const [first] = dropped;
  return {
    name,
    value: count(total),
    unit:
      dropped.length === 1
        ? `of ${countOf(first)} at ${first.name}`
        : `at ${dropped.length} operators`,
    title: dropped.map(droppedText).join("\n"),
  };
}

/**
 * How many there were; what, if these are not records.
 * @param {Dropped} each
 */
function countOf({ records, unit }) {
  return unit && unit !== "records" ? `${count(records)} ${unit}` : count(records);
}

/** @param {Dropped} each */
function droppedText(each) {
  const parts = [
    `${each.name}: ${count(each.dropped)} of ${countOf(each)}, ${each.reason}`,
    known(each.lateness_ms) ? `up to ${duration(each.lateness_ms)} behind the watermark` : "",
    known(each.watermark) ? `the watermark is at ${eventTime(each.watermark)}` : "",
  ];
  return parts.filter(Boolean).join(", ");
}

/** @type {ChartFigure[]} */
export const CHARTS = [
  { name: "Records in", of: (vertex) => vertex.recordsInPerSecond, format: rate },
  { name: "Records out", of: (vertex) => vertex.recordsOutPerSecond, format: rate },
  { name: "Busy", of: (vertex) => vertex.busy, format: share, most: 1, highest: true },
  {
    name: "Back-pressured",
    of: (vertex) => vertex.backPressured,
    format: share,
    most: 1,
    highest: true,
  },
  {
    name: "Bytes out",
    of: (vertex) => vertex.bytesOutPerSecond,
    format: (value) => `${bytes(value)}/s`,
  },
  { name: "Watermark lag", of: watermarkLag, format: duration, highest: true },
];

/**
 * @param {Pick<Vertex, "watermark">} vertex
 * @param {number} time
 */
export function watermarkLag({ watermark }, time) {
  return known(watermark) && hasWatermark(watermark) ? Math.max(0, time - watermark) : null;
}

/**
 * The values of a figure over time, a line for each vertex.
 * @param {ChartFigure} figure
 * @param {Vertex[]} vertices
 * @param {Sample[]} samples
 * @returns {Series[]}
 */
export function seriesOf(figure, vertices, samples) {
  return vertices.map(({ id, name }) => ({
    name,
    values: samples.map((sample) => {
      const vertex = sample.vertices.get(id);
      return vertex ? figure.of(vertex, sample.time) : null;
    }),
  }));
}

/**
 * The newest value of a figure, over all its lines.
 * @param {ChartFigure} figure
 * @param {Series[]} series
 */
export function newest(figure, series) {
  const last = series.map((each) => each.values.at(-1)).filter(known);
  if (!last.length) return "–";
  return figure.format(figure.highest ? Math.max(...last) : last.reduce((a, b) => a + b, 0));
}
