// @ts-check
// What the formatter does not look at: markup in templates, and files of other projects.
import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { test } from "node:test";

const ROOT = new URL("../../", import.meta.url);
const STATIC = new URL("penstock/web/static/", ROOT);
const WIDTH = 100;

/** @param {URL} url */
const read = (url) => readFileSync(url, "utf8");

const MODULES = readdirSync(new URL("app/", STATIC), { recursive: true })
  .map(String)
  .filter((name) => name.endsWith(".js"));

test("no line of the page is too long to read", () => {
  const long = MODULES.flatMap((name) =>
    read(new URL(`app/${name}`, STATIC))
      .split("\n")
      .flatMap((line, n) => (line.length > WIDTH ? [`${name}:${n + 1}`] : [])),
  );
  assert.deepEqual(long, []);
});

test("the types of every module are checked", () => {
  const unchecked = MODULES.filter(
    (name) => !read(new URL(`app/${name}`, STATIC)).startsWith("// @ts-check\n"),
  );
  assert.deepEqual(unchecked, []);
});

const LOCK = read(new URL("package-lock.json", ROOT));

test("the lock file names no server to download from", () => {
  assert.ok(!LOCK.includes('"resolved"'));
  assert.ok(LOCK.includes('"integrity"'));
});

test("the lock file has the tools for every platform", () => {
  /** @type {{packages: Record<string, {optionalDependencies?: Record<string, string>}>}} */
  const { packages } = JSON.parse(LOCK);
  const missing = Object.values(packages)
    .flatMap((each) => Object.keys(each.optionalDependencies ?? {}))
    .filter((name) => !packages[`node_modules/${name}`]);
  assert.deepEqual(missing, []);
});

// The files that the types come from are those that the page loads.
const VENDORED = {
  "preact/dist/preact.mjs": "preact/preact.js",
  "preact/hooks/dist/hooks.mjs": "preact/hooks.js",
  "htm/dist/htm.module.js": "htm/htm.js",
  "dagre/dist/dagre.esm.js": "dagre/dagre.js",
  "uplot/dist/uPlot.esm.js": "uplot/uplot.js",
  "uplot/dist/uPlot.min.css": "uplot/uplot.css",
};

for (const [published, vendored] of Object.entries(VENDORED)) {
  test(`vendor/${vendored} is what its authors have published`, () => {
    const code = (/** @type {URL} */ url) =>
      read(url)
        .replaceAll(/\/\/# sourceMappingURL=.*|\/\*# sourceMappingURL=.*?\*\//g, "")
        .trim();
    const there = code(new URL(`node_modules/${published}`, ROOT));
    assert.ok(code(new URL(`vendor/${vendored}`, STATIC)) === there);
  });
}
