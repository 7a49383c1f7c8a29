// @ts-check
// Lists of jobs: which have ended, which need attention, how many there are. Pure.

/** @import { JobRow } from "../../types.d.ts" */

const ENDED = new Set(["FINISHED", "CANCELED", "FAILED"]);
const TROUBLED = new Set(["FAILING", "RESTARTING", "SUSPENDED"]);

/** @typedef {Pick<JobRow, "state">} WithState */

/** @param {WithState} job */
export function hasEnded(job) {
  return ENDED.has(job.state);
}

/**
 * The jobs that need attention now. One that has failed needs none: it is over.
 * @template {WithState} T
 * @param {T[]} jobs
 */
export function troubled(jobs) {
  return jobs.filter((job) => TROUBLED.has(job.state));
}

/**
 * @template {WithState} T
 * @param {T[]} jobs
 * @param {string} filter "all", "running" or "ended"
 */
export function filtered(jobs, filter) {
  return jobs.filter((job) => filter === "all" || (filter === "ended") === hasEnded(job));
}

/**
 * How many jobs are in each state, and how many tasks run in those that have not ended.
 * @param {Pick<JobRow, "state" | "tasks">[]} jobs
 */
export function totals(jobs) {
  const of = (/** @type {string} */ state) => jobs.filter((job) => job.state === state).length;
  const running = jobs.filter((job) => !hasEnded(job));
  return {
    running: running.length,
    tasks: running.reduce((sum, job) => sum + (job.tasks.running ?? 0), 0),
    finished: of("FINISHED"),
    cancelled: of("CANCELED"),
    failed: of("FAILED"),
  };
}

/**
 * Words as a shell would split them: quotes keep blanks together.
 * @param {string} text
 */
export function shellWords(text) {
  const found = text.matchAll(/"([^"]*)"|'([^']*)'|(\S+)/g);
  return [...found].map(([, double, single, bare]) => double ?? single ?? bare);
}
