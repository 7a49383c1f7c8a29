// @ts-check
import assert from "node:assert/strict";
import { test } from "node:test";
import {
  arrivalAt,
  href,
  parseArrival,
  parseRoute,
} from "../../penstock/web/static/app/address.js";

test("an empty address is the list of jobs", () => {
  assert.deepEqual(parseRoute(""), { path: "/", parts: [], query: {} });
  assert.deepEqual(parseRoute("#"), { path: "/", parts: [], query: {} });
});

test("a place has parts and a query", () => {
  assert.deepEqual(parseRoute("#/jobs/ab%2Fc/graph?vertex=a%26b"), {
    path: "/jobs/ab%2Fc/graph",
    parts: ["jobs", "ab/c", "graph"],
    query: { vertex: "a&b" },
  });
});

test("what href writes, parseRoute reads", () => {
  for (const parts of [[], ["jobs"], ["cluster", "host:1/a b", "log"], ["jobs", "ä?#%"]]) {
    for (const query of [{}, { vertex: "a=b&c" }, { vertex: "ü", x: "1" }]) {
      const route = parseRoute(href(parts, query));
      assert.deepEqual([route.parts, route.query], [parts, query]);
    }
  }
});

test("href leaves out what has no value", () => {
  assert.equal(href(["jobs"], { a: undefined, b: null, c: "", d: "x" }), "#/jobs?d=x");
  assert.equal(href(["jobs"]), "#/jobs");
});

test("a token in the address is taken out of it", () => {
  assert.deepEqual(parseArrival("#token=abc&/jobs/1?vertex=2"), {
    token: "abc",
    gone: null,
    place: "/jobs/1?vertex=2",
  });
  assert.deepEqual(parseArrival("#token=abc"), { token: "abc", gone: null, place: "/" });
  assert.deepEqual(parseArrival("#gone=host:1&/"), { token: null, gone: "host:1", place: "/" });
});

test("an address without a token brings nothing along", () => {
  assert.equal(parseArrival(""), null);
  assert.equal(parseArrival("#/jobs/token=abc"), null);
});

test("what goes to another JobManager arrives there", () => {
  const address = arrivalAt("http://other:8081", "#/jobs/1?vertex=2", {
    token: "a&b/c",
    gone: "host:8081",
  });
  assert.ok(address.startsWith("http://other:8081/#token="));
  assert.deepEqual(parseArrival(address.slice(address.indexOf("#"))), {
    token: "a&b/c",
    gone: "host:8081",
    place: "/jobs/1?vertex=2",
  });
  assert.equal(arrivalAt("http://other:8081", "", {}), "http://other:8081/#/");
});
