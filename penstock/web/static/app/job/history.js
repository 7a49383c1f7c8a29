// @ts-check
// What the figures of a job were since the page was opened: charts begin with it, whichever tab was
// open.

/** @import { Job, Sample } from "../../../types.d.ts" */

const KEPT_MS = 15 * 60_000;
const APART_MS = 400; // samples that come faster are left out

/** @type {Map<string, Sample[]>} by the id of the job */
const jobs = new Map();

/**
 * @param {string} id
 * @param {Pick<Job, "now" | "latency" | "vertices">} job
 */
export function remember(id, job) {
  const samples = jobs.get(id) ?? [];
  jobs.set(id, samples);
  const last = samples[samples.length - 1];
  if (last && job.now - last.time < APART_MS) return;
  samples.push({
    time: job.now,
    latency: job.latency,
    vertices: new Map(job.vertices.map((vertex) => [vertex.id, vertex])),
  });
  while (samples[0].time < job.now - KEPT_MS) samples.shift();
}

/**
 * @param {string} id
 * @returns {Sample[]}
 */
export function samplesOf(id) {
  return jobs.get(id) ?? [];
}
