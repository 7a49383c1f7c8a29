// @ts-check
import assert from "node:assert/strict";
import { test } from "node:test";
import { parseEvent, retryDelay, splitEvents } from "../../penstock/web/static/app/events.js";

const NEWS = { path: "/jobs/overview", status: 200, content: { jobs: [] } };

test("events that arrive in pieces of any size are the same events", () => {
  const text = `: alive\n\ndata: ${JSON.stringify(NEWS)}\n\ndata: {"path":"/a","status":404}\n\n`;
  for (let size = 1; size <= text.length; size += 1) {
    /** @type {string[]} */
    const found = [];
    let rest = "";
    for (let at = 0; at < text.length; at += size) {
      const piece = splitEvents(rest + text.slice(at, at + size));
      found.push(...piece.events);
      rest = piece.rest;
    }
    assert.equal(rest, "");
    assert.deepEqual(found.map(parseEvent), [null, NEWS, { path: "/a", status: 404 }]);
  }
});

test("half an event waits for its other half", () => {
  assert.deepEqual(splitEvents("data: 1\n\ndata: 2"), { events: ["data: 1"], rest: "data: 2" });
});

test("the blank after the colon may be missing", () => {
  assert.deepEqual(parseEvent('data:{"path":"/a"}'), { path: "/a" });
});

test("data over several lines is one value", () => {
  assert.deepEqual(parseEvent('event: change\ndata: {"path":\ndata: "/a"}'), { path: "/a" });
});

test("the page waits longer after every failure, but never longer than five seconds", () => {
  const delays = Array.from({ length: 8 }, (_, n) => retryDelay(n));
  assert.deepEqual(delays, [250, 500, 1000, 2000, 4000, 5000, 5000, 5000]);
});
