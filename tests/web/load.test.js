// @ts-check
import assert from "node:assert/strict";
import { test } from "node:test";
import {
  bottleneck,
  busiest,
  heat,
  heatColour,
  heatStyle,
  level,
} from "../../penstock/web/static/app/job/load.js";

test("a vertex that was not measured has no heat", () => {
  assert.equal(heat({ busy: null, backPressured: null }), null);
  assert.deepEqual(heatStyle({}), {});
  assert.equal(heatColour({}), "var(--line-strong)");
});

test("the stronger of busy and back-pressured gives the colour", () => {
  assert.deepEqual(heat({ busy: 0.6, backPressured: 0.2 }), { colour: "var(--busy)", amount: 0.6 });
  assert.deepEqual(heat({ busy: 0.2, backPressured: 0.6 }), {
    colour: "var(--pressed)",
    amount: 0.6,
  });
  assert.deepEqual(heat({ busy: 0.5, backPressured: 0.5 }), { colour: "var(--busy)", amount: 0.5 });
  assert.deepEqual(heat({ busy: 0, backPressured: null }), { colour: "var(--busy)", amount: 0 });
});

test("the graph and the small map colour a vertex alike", () => {
  for (const vertex of [
    { busy: 0.9, backPressured: 0 },
    { busy: 0.1, backPressured: 0.9 },
  ]) {
    const colour = heat(vertex)?.colour ?? "none";
    assert.equal(heatStyle(vertex)["--heat"], colour);
    assert.ok(heatColour(vertex).includes(colour));
  }
});

test("heat is shares of a colour", () => {
  assert.deepEqual(heatStyle({ busy: 0.5, backPressured: 0 }), {
    "--heat": "var(--busy)",
    "--heat-share": "17%",
    "--heat-edge": "63%",
  });
  assert.equal(heatStyle({ busy: 1, backPressured: 0 })["--heat-edge"], "100%");
  assert.equal(
    heatColour({ busy: 0.1, backPressured: 0.8 }),
    "color-mix(in oklab, var(--pressed) 80%, var(--idle))",
  );
});

test("levels change above ten and fifty percent", () => {
  assert.deepEqual(
    [null, 0, 0.1, 0.11, 0.5, 0.51, 1].map((ratio) => level(ratio)),
    [undefined, "ok", "ok", "low", "low", "high", "high"],
  );
});

test("the busiest vertex leaves the order of the others alone", () => {
  const vertices = [
    { id: "a", busy: 0.1 },
    { id: "b", busy: null },
    { id: "c", busy: 0.7 },
  ];
  assert.equal(busiest(vertices)?.id, "c");
  assert.deepEqual(
    vertices.map((vertex) => vertex.id),
    ["a", "b", "c"],
  );
  assert.equal(busiest([{ busy: null }]), undefined);
});

test("the bottleneck is the busiest vertex that does not wait itself", () => {
  const vertices = [
    { id: "source", busy: 0.2, backPressured: 0.8 },
    { id: "busier, but waiting", busy: 0.85, backPressured: 0.15 },
    { id: "window", busy: 0.8, backPressured: 0 },
    { id: "sink", busy: 0.1, backPressured: 0 },
  ];
  assert.equal(bottleneck(vertices)?.id, "window");
});

test("no vertex waits, so there is no bottleneck", () => {
  assert.equal(bottleneck([{ busy: 1, backPressured: 0.1 }]), undefined);
  assert.equal(bottleneck([{ busy: null, backPressured: null }]), undefined);
});
