// @ts-check
// The pure parts of the tabs of a job.
import assert from "node:assert/strict";
import { test } from "node:test";
import {
  CHARTS,
  glance,
  newest,
  seriesOf,
  watermarkLag,
} from "../../penstock/web/static/app/job/figures.js";
import {
  around,
  colour,
  frames,
  shortName,
  within,
} from "../../penstock/web/static/app/job/frames.js";
import { remember, samplesOf } from "../../penstock/web/static/app/job/history.js";
import { entered, firstTimes, spans } from "../../penstock/web/static/app/job/spans.js";
import { cell, isInternal, tables } from "../../penstock/web/static/app/job/tables.js";
import {
  failures,
  headline,
  lastLine,
  whereabouts,
} from "../../penstock/web/static/app/job/tracebacks.js";

/** @import { Call, Job, Subtask, Vertex } from "../../penstock/web/types.d.ts" */

/**
 * @param {string} id
 * @param {Partial<Vertex>} more
 * @returns {Vertex}
 */
function vertex(id, more = {}) {
  return {
    id,
    name: `vertex ${id}`,
    status: "RUNNING",
    parallelism: 1,
    maxParallelism: 128,
    source: false,
    operators: [],
    "start-time": 1000,
    "end-time": -1,
    ...more,
  };
}

/**
 * @param {Partial<Job>} more
 * @returns {Job}
 */
function job(more = {}) {
  return {
    jid: "1",
    name: "job",
    state: "RUNNING",
    now: 61_000,
    duration: 5000,
    "start-time": 1000,
    "end-time": -1,
    restarts: 0,
    failures: 0,
    vertices: [],
    edges: [],
    ...more,
  };
}

test("states last from when they were entered to when the next one was", () => {
  const times = { RUNNING: 30, CREATED: 10, SCHEDULED: 20, FAILED: 0, CANCELED: -1 };
  assert.deepEqual(spans(times, 100), [
    { state: "CREATED", start: 10, end: 20 },
    { state: "SCHEDULED", start: 20, end: 30 },
    { state: "RUNNING", start: 30, end: 100 },
  ]);
  assert.deepEqual(spans({ RUNNING: 30, FINISHED: 50 }, 100).at(-1), {
    state: "FINISHED",
    start: 50,
    end: 50,
  });
  assert.deepEqual(entered({}), []);
});

test("a vertex enters a state with its first subtask", () => {
  /** @type {Pick<Subtask, "timestamps">[]} */
  const subtasks = [
    { timestamps: { RUNNING: 40, CREATED: 5, FAILED: 0 } },
    { timestamps: { RUNNING: 30, CREATED: 9 } },
    {},
  ];
  assert.deepEqual(firstTimes(vertex("a"), subtasks), { RUNNING: 30, CREATED: 5 });
});

test("a vertex without subtasks has run from its start to its end", () => {
  assert.deepEqual(firstTimes(vertex("a"), []), { RUNNING: 1000 });
  const ended = vertex("a", { status: "FINISHED", "end-time": 2000 });
  assert.deepEqual(firstTimes(ended, []), { RUNNING: 1000, FINISHED: 2000 });
  assert.deepEqual(firstTimes(vertex("a", { "start-time": -1 }), []), {});
});

const TRACEBACK = `Traceback (most recent call last):
  File "job.py", line 3, in parse
ValueError: not a number: 'x'

The above exception was the direct cause of the following exception:

penstock.errors.TaskFailed: operator "parse" failed
`;

test("the headline of a failure is the user's error", () => {
  assert.equal(headline({ stacktrace: TRACEBACK }), "ValueError: not a number: 'x'");
  assert.equal(headline({ stacktrace: "KeyError" }), "KeyError");
});

test("the headline of a failure without a readable traceback is its name", () => {
  assert.equal(headline({ exceptionName: "Killed", stacktrace: "  no error here" }), "Killed");
  assert.equal(headline({ exceptionName: "Big", stacktrace: `E: ${"x".repeat(300)}` }), "Big");
  assert.equal(headline({}), "Exception");
});

test("the last line of a traceback is its summary", () => {
  assert.equal(lastLine(TRACEBACK), 'penstock.errors.TaskFailed: operator "parse" failed');
  assert.equal(lastLine(undefined), "");
});

test("where it failed leaves out what is not known", () => {
  const failure = { exceptionName: "E", taskName: null, endpoint: "(unassigned)" };
  assert.equal(whereabouts(failure), "E");
  assert.equal(
    whereabouts({ ...failure, taskName: "map", endpoint: "host:1" }),
    "E · map · host:1",
  );
});

test("a job without a history shows the failure that ended it", () => {
  const entries = [{ exceptionName: "A" }];
  assert.equal(failures({ exceptionHistory: { entries }, "root-exception": TRACEBACK }), entries);
  assert.deepEqual(failures({ "root-exception": TRACEBACK, timestamp: 5 }), [
    { exceptionName: "penstock.errors.TaskFailed", stacktrace: TRACEBACK, timestamp: 5 },
  ]);
  assert.deepEqual(failures({ "root-exception": null }), []);
});

const CALLS = {
  name: "root",
  value: 1000,
  children: [
    { name: "a", value: 600, children: [{ name: "b", value: 300 }] },
    { name: "c", value: 399 },
    { name: "rare", value: 1 },
  ],
};

test("calls stand side by side upon the call that made them", () => {
  assert.deepEqual(
    frames(CALLS).map(({ node, left, width, depth }) => [node.name, left, width, depth]),
    [
      ["root", 0, 1, 0],
      ["a", 0, 0.6, 1],
      ["b", 0, 0.3, 2],
      ["c", 0.6, 0.399, 1],
    ],
  );
});

test("without samples there are no calls", () => {
  assert.deepEqual(frames(null), []);
  assert.deepEqual(frames({ name: "root", value: 0 }), []);
});

test("around a call are its callers and what it calls, not the calls beside it", () => {
  /** @type {Call[]} */
  const children = Array.from({ length: 12 }, (_, n) => ({ name: `call ${n}`, value: 10 }));
  children[1] = { ...children[1], children: [{ name: "inner", value: 5 }] };
  const all = frames({ name: "root", value: 120, children });
  const chosen = all.find((each) => each.node.name === "call 1");
  assert.ok(chosen);
  // The eleventh call has a path that begins like that of the second.
  assert.deepEqual(
    around(all, chosen).map((each) => each.node.name),
    ["root", "call 1", "inner"],
  );
  assert.deepEqual(
    all.filter((each) => within(each, chosen)).map((each) => each.node.name),
    ["call 1", "inner"],
  );
});

test("the same call has the same warm colour every time", () => {
  assert.equal(colour("map.process:12"), colour("map.process:12"));
  assert.notEqual(colour("map.process:12"), colour("map.process:13"));
  for (const name of ["", "a", "package.module.function:1", "ä".repeat(500)]) {
    const [, hue, saturation, light] = /^hsl\((\d+) (\d+)% (\d+)%\)$/.exec(colour(name)) ?? [];
    assert.ok(Number(hue) >= 18 && Number(hue) < 52);
    assert.ok(Number(saturation) >= 72 && Number(saturation) < 92);
    assert.ok(Number(light) >= 64 && Number(light) < 78);
  }
});

test("names of methods keep their class", () => {
  assert.equal(shortName("package.module.Class.function:12"), "Class.function:12");
  assert.equal(shortName("package.module.function:12"), "function:12");
  assert.equal(shortName("main"), "main");
});

const OPERATOR = {
  id: "o1",
  name: "count",
  states: [
    { name: "total", kind: "value", keyed: true },
    { name: "buffer", kind: "list", table: "buffer-2", internal: true },
  ],
};

test("an operator with keyed state has a table of timers too", () => {
  const found = tables([OPERATOR, { id: "o2", name: "sink", states: [] }]);
  assert.deepEqual(
    found.map(({ table, title }) => [table, title]),
    [
      ["total", "total, of count"],
      ["buffer-2", "buffer, of count"],
      ["timers", "Timers of count"],
    ],
  );
  assert.deepEqual(found.map(isInternal), [false, true, false]);
});

test("cells are short, and times in columns of times are times", () => {
  const time = Date.UTC(2024, 0, 1);
  assert.deepEqual(cell(null, "value"), { text: "none", kind: "none" });
  assert.deepEqual(cell(time, "timestamp"), {
    text: "2024-01-01 00:00:00",
    title: String(time),
    kind: "time",
  });
  assert.equal(cell(time, "value").text, String(time));
  assert.equal(cell(7, "end").text, "7");
  assert.equal(cell({ a: [1] }, "value").text, '{"a":[1]}');
  assert.equal(cell(false, "value").text, "false");
  const long = cell("x".repeat(3000), "value");
  assert.equal(long.text, `${"x".repeat(160)}…`);
  assert.equal(long.title?.length, 2000);
});

test("a job at a glance", () => {
  const vertices = [
    vertex("a", { source: true, recordsOutPerSecond: 1000, busy: 0.2 }),
    vertex("b", { source: true, recordsOutPerSecond: 500, busy: 0.9 }),
    vertex("c", { recordsOutPerSecond: 7 }),
  ];
  const checkpoint = { completed: 59_000, duration: 40 };
  const items = glance(job({ vertices, checkpoint, latency: { p50: 3, p99: 12 } }), 61_000);
  assert.deepEqual(
    items.map(({ name, value, unit }) => [name, value, unit]),
    [
      ["Duration", "1 min 0 s", undefined],
      ["Records from sources", "1,500/s", undefined],
      ["Busiest", "90 %", "vertex b"],
      ["Last checkpoint", "40 ms", "2.0 s ago"],
      ["Restarts", "0", undefined],
      ["Latency, p99", "12 ms", "p50 3 ms"],
    ],
  );
});

test("dropped records at a glance: how many, of how many, where, why", () => {
  const late = {
    name: "window",
    metric: "numLateRecordsDropped",
    reason: "they are late",
    dropped: 1200,
    records: 50_000,
    watermark: Date.UTC(2024, 0, 1),
    lateness_ms: 4500,
  };
  const malformed = {
    name: "lines",
    metric: "numRecordsSkipped",
    reason: "they cannot be parsed",
    dropped: 3,
    records: 9,
    watermark: null,
    lateness_ms: null,
  };
  /** @param {import("../../penstock/web/types.d.ts").Dropped[]} dropped */
  const items = (dropped) => glance(job({ dropped }), 61_000).slice(5);
  assert.deepEqual(items([]), []);
  assert.deepEqual(items([late]), [
    {
      name: "Dropped as late",
      value: "1,200",
      unit: "of 50.0 k at window",
      title:
        "window: 1,200 of 50.0 k, they are late, up to 4.5 s behind the watermark, the watermark is at 2024-01-01 00:00:00",
    },
  ]);
  const [partials] = items([{ ...late, unit: "partial aggregates", lateness_ms: null }]);
  assert.equal(partials.unit, "of 50.0 k partial aggregates at window");
  assert.match(partials.title ?? "", /^window: 1,200 of 50.0 k partial aggregates, they are late/);
  assert.deepEqual(
    items([late, { ...late, name: "join", dropped: 1 }, malformed]).map((item) => [
      item.name,
      item.value,
      item.unit,
      item.title?.split("\n").at(-1),
    ]),
    [
      [
        "Dropped as late",
        "1,201",
        "at 2 operators",
        "join: 1 of 50.0 k, they are late, up to 4.5 s behind the watermark, the watermark is at 2024-01-01 00:00:00",
      ],
      ["Dropped otherwise", "3", "of 9 at lines", "lines: 3 of 9, they cannot be parsed"],
    ],
  );
});

test("a job that has ended and reported nothing at a glance", () => {
  const items = glance(
    job({ "end-time": 6000, vertices: [vertex("a", { source: true })] }),
    99_999,
  );
  assert.deepEqual(
    items.map(({ value }) => value),
    ["5.0 s", "–", "–", "–", "0"],
  );
});

test("charts have a line for each vertex, with gaps where it was not there", () => {
  const [records] = CHARTS;
  const a = vertex("a", { recordsInPerSecond: 5 });
  const b = vertex("b", { recordsInPerSecond: 7 });
  const samples = [
    { time: 1, vertices: new Map([["a", a]]) },
    {
      time: 2,
      vertices: new Map([
        ["a", a],
        ["b", b],
      ]),
    },
  ];
  assert.deepEqual(seriesOf(records, [a, b], samples), [
    { name: "vertex a", values: [5, 5] },
    { name: "vertex b", values: [null, 7] },
  ]);
});

test("the newest value is the sum of records, but the highest of shares and lags", () => {
  const series = [
    { name: "a", values: [1, 0.25] },
    { name: "b", values: [1, 0.5] },
    { name: "c", values: [1, null] },
  ];
  const shown = Object.fromEntries(CHARTS.map((figure) => [figure.name, newest(figure, series)]));
  assert.deepEqual(shown, {
    "Records in": "0.8/s",
    "Records out": "0.8/s",
    Busy: "50 %",
    "Back-pressured": "50 %",
    "Bytes out": "1 B/s",
    "Watermark lag": "1 ms",
  });
  assert.equal(newest(CHARTS[0], [{ name: "a", values: [null] }]), "–");
});

test("the lag of a watermark is never negative, and unknown before the first one", () => {
  assert.equal(watermarkLag({ watermark: 400 }, 1000), 600);
  assert.equal(watermarkLag({ watermark: 1400 }, 1000), 0);
  assert.equal(watermarkLag({ watermark: -(2 ** 63) }, 1000), null);
  assert.equal(watermarkLag({ watermark: null }, 1000), null);
});

test("the history of a job keeps a quarter of an hour and leaves out what comes too fast", () => {
  const minute = 60_000;
  const times = () => samplesOf("1").map((sample) => sample.time);
  assert.deepEqual(samplesOf("1"), []);
  for (const now of [minute, minute + 399, minute + 400]) remember("1", job({ now }));
  assert.deepEqual(times(), [minute, minute + 400]);
  remember("1", job({ now: 16 * minute + 1, vertices: [vertex("a")] }));
  assert.deepEqual(times(), [minute + 400, 16 * minute + 1]);
  assert.deepEqual([...(samplesOf("1").at(-1)?.vertices.keys() ?? [])], ["a"]);
  assert.deepEqual(samplesOf("another"), []);
});
