// @ts-check
import assert from "node:assert/strict";
import { test } from "node:test";
import { curve, merged, NODE, neighbour, place } from "../../penstock/web/static/app/job/layout.js";

const VERTICES = ["a", "b", "c", "d"].map((id) => ({ id }));
const EDGES = [
  { source: "a", target: "c" },
  { source: "b", target: "c" },
  { source: "c", target: "d" },
];
const layout = place(VERTICES, EDGES);

/** @param {string} id */
function at(id) {
  const found = layout.nodes.get(id);
  assert.ok(found);
  return found;
}

test("vertices stand from left to right, and none upon another", () => {
  for (const { source, target } of EDGES) {
    assert.ok(at(source).x + NODE.width < at(target).x);
  }
  for (const one of VERTICES) {
    for (const other of VERTICES) {
      if (one === other) continue;
      const apart =
        Math.abs(at(one.id).x - at(other.id).x) >= NODE.width ||
        Math.abs(at(one.id).y - at(other.id).y) >= NODE.height;
      assert.ok(apart, `${one.id} covers ${other.id}`);
    }
  }
});

test("the area holds all vertices", () => {
  for (const { id } of VERTICES) {
    assert.ok(at(id).x - NODE.width / 2 >= 0 && at(id).x + NODE.width / 2 <= layout.width);
    assert.ok(at(id).y - NODE.height / 2 >= 0 && at(id).y + NODE.height / 2 <= layout.height);
  }
});

test("the same graph always looks the same", () => {
  assert.deepEqual(place(VERTICES, EDGES), layout);
});

test("an edge begins and ends at the sides of its vertices", () => {
  const [edge] = layout.edges;
  assert.equal(edge.key, "a>c");
  assert.ok(edge.path.startsWith(`M${at("a").x + NODE.width / 2},${at("a").y}C`));
  assert.ok(edge.path.endsWith(` ${at("c").x - NODE.width / 2},${at("c").y}`));
});

test("one vertex without edges has room", () => {
  const alone = place([{ id: "a" }], []);
  assert.ok(alone.width >= NODE.width && alone.height >= NODE.height);
});

test("a line leaves and arrives level", () => {
  const points = [
    { x: 0, y: 0 },
    { x: 10, y: 20 },
    { x: 20, y: 0 },
  ];
  assert.equal(curve(points), "M0,0C5,0 5,20 10,20C15,20 15,0 20,0");
});

test("several edges between two vertices become one with all strategies", () => {
  const edges = [
    { source: "a", target: "b", strategy: "HASH", recordsPerSecond: 5 },
    { source: "a", target: "b", strategy: "REBALANCE", recordsPerSecond: 5 },
    { source: "b", target: "c", strategy: "FORWARD" },
  ];
  const found = merged(edges);
  assert.deepEqual(
    found.map(({ source, target, strategies }) => [source, target, [...strategies]]),
    [
      ["a", "b", ["HASH", "REBALANCE"]],
      ["b", "c", ["FORWARD"]],
    ],
  );
});

test("arrow keys go along edges, and up and down within a column", () => {
  const go = (/** @type {string} */ key, /** @type {string} */ id) =>
    neighbour(key, id, layout, EDGES);
  const [upper, lower] = at("a").y < at("b").y ? ["a", "b"] : ["b", "a"];
  assert.equal(go("ArrowRight", "a"), "c");
  assert.equal(go("ArrowLeft", "d"), "c");
  assert.equal(go("ArrowRight", "d"), undefined);
  assert.equal(go("ArrowDown", upper), lower);
  assert.equal(go("ArrowUp", lower), upper);
  assert.equal(go("ArrowUp", upper), undefined);
  assert.equal(go("Enter", "a"), undefined);
  assert.equal(go("ArrowDown", "unknown"), undefined);
});
