// @ts-check
import assert from "node:assert/strict";
import { test } from "node:test";
import {
  filtered,
  hasEnded,
  shellWords,
  totals,
  troubled,
} from "../../penstock/web/static/app/jobs.js";

/** @import { JobRow } from "../../penstock/web/types.d.ts" */

/** @type {Pick<JobRow, "jid" | "state" | "tasks">[]} */
const JOBS = [
  { jid: "1", state: "RUNNING", tasks: { running: 3, total: 3 } },
  { jid: "2", state: "RESTARTING", tasks: { running: 1, total: 3 } },
  { jid: "3", state: "FINISHED", tasks: { finished: 3, total: 3 } },
  { jid: "4", state: "CANCELED", tasks: { running: 7, total: 7 } },
  { jid: "5", state: "FAILED", tasks: { total: 2 } },
];
const ids = (/** @type {{jid: string}[]} */ jobs) => jobs.map((job) => job.jid).join("");

test("filters divide the jobs", () => {
  assert.equal(ids(filtered(JOBS, "all")), "12345");
  assert.equal(ids(filtered(JOBS, "running")), "12");
  assert.equal(ids(filtered(JOBS, "ended")), "345");
});

test("a job that has failed for good needs no attention, one that restarts does", () => {
  assert.equal(ids(troubled(JOBS)), "2");
  assert.ok(hasEnded(JOBS[4]));
});

test("totals count the tasks of jobs that have not ended", () => {
  assert.deepEqual(totals(JOBS), {
    running: 2,
    tasks: 4,
    finished: 1,
    cancelled: 1,
    failed: 1,
  });
  assert.equal(totals([]).tasks, 0);
});

test("arguments are split as a shell splits them", () => {
  assert.deepEqual(shellWords(`  --rate 5000 --name "two words" 'a "b"' ""`), [
    "--rate",
    "5000",
    "--name",
    "two words",
    'a "b"',
    "",
  ]);
  assert.deepEqual(shellWords("   "), []);
});
