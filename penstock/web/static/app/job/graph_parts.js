// @ts-check
// What the graph of a job is drawn with: vertices, labels of edges, the small map.
import { bytes, eventTime, known, plural, rate, share, watermark, words } from "../format.js";
import { html } from "../lib.js";
import { LoadBar } from "../ui.js";
import { NODE } from "./layout.js";
import { describe, heatColour, heatStyle } from "./load.js";

/** @import { EdgePlace, Layout, MergedEdge, Place, Vertex, View } from "../../../types.d.ts" */

/**
 * @typedef {object} NodeProps
 * @property {Vertex} vertex
 * @property {Place} at
 * @property {boolean} selected
 * @property {(id: string) => void} onSelect
 * @property {(event: KeyboardEvent, id: string) => void} onMove
 */

/** @param {NodeProps} props */
export function Node({ vertex, at, selected, onSelect, onMove }) {
  return html`<button
    type="button"
    class="node"
    data-vertex=${vertex.id}
    aria-pressed=${selected}
    aria-label=${describe(vertex)}
    title=${vertex.name}
    style=${{
      left: `${at.x - NODE.width / 2}px`,
      top: `${at.y - NODE.height / 2}px`,
      width: `${NODE.width}px`,
      height: `${NODE.height}px`,
      ...heatStyle(vertex),
    }}
    onClick=${() => onSelect(vertex.id)}
    onKeyDown=${(/** @type {KeyboardEvent} */ event) => onMove(event, vertex.id)}
  >
    <span class="what">
      <strong>${vertex.name}</strong>
      <span class="chip">× ${vertex.parallelism}</span>
    </span>
    <span class="numbers quiet">${
      known(vertex.busy)
        ? html`
          <span>${vertex.source ? "" : `${rate(vertex.recordsInPerSecond)} in`}</span>
          <span>${rate(vertex.recordsOutPerSecond)} out</span>
        `
        : html`<span>${plural(vertex.operators.length, "operator")}</span>`
    }</span>
    <${LoadBar} busy=${vertex.busy} pressed=${vertex.backPressured} idle=${vertex.idle} />
    <span class="numbers">${
      known(vertex.busy) && vertex.status === "RUNNING"
        ? html`
          <span>busy ${share(vertex.busy)}</span>
          <span>${
            (vertex.backPressured ?? 0) >= 0.005
              ? `back-pressured ${share(vertex.backPressured)}`
              : ""
          }</span>
        `
        : html`<span>${words(vertex.status)}</span>`
    }</span>
  </button>`;
}

/** @param {{edge: MergedEdge, at: EdgePlace, now: number}} props */
export function EdgeLabel({ edge, at, now }) {
  const lag = watermark(edge.watermark, now);
  if (!known(edge.recordsPerSecond) && !lag) return null;
  const title = [
    [...edge.strategies].join(", "),
    known(edge.bytesPerSecond) && `${bytes(edge.bytesPerSecond)}/s`,
    lag && `watermark ${eventTime(edge.watermark)}`,
  ]
    .filter(Boolean)
    .join(" · ");
  return html`<div
    class="edge-label"
    data-edge=${at.key}
    title=${title}
    style=${{ left: `${at.x}px`, top: `${at.y}px` }}
  >
    ${rate(edge.recordsPerSecond)}
    ${lag && html`<span>${lag}</span>`}
  </div>`;
}

/**
 * @typedef {object} MinimapProps
 * @property {Layout} layout
 * @property {Vertex[]} vertices
 * @property {View | null} view the part that is seen
 * @property {(x: number, y: number) => void} jump
 */

/** @param {MinimapProps} props */
export function Minimap({ layout, vertices, view, jump }) {
  const pick = (/** @type {MouseEvent & {currentTarget: Element}} */ event) => {
    const box = event.currentTarget.getBoundingClientRect();
    jump(
      ((event.clientX - box.left) / box.width) * layout.width,
      ((event.clientY - box.top) / box.height) * layout.height,
    );
  };
  return html`<div class="minimap" aria-hidden="true">
    <svg viewBox=${`0 0 ${layout.width} ${layout.height}`} onClick=${pick}>
      ${vertices.map((vertex) => {
        const at = layout.nodes.get(vertex.id);
        if (!at) return null;
        return html`<rect
          key=${vertex.id}
          x=${at.x - NODE.width / 2}
          y=${at.y - NODE.height / 2}
          width=${NODE.width}
          height=${NODE.height}
          rx="14"
          style=${{ fill: heatColour(vertex) }}
        />`;
      })}
      ${
        view &&
        html`<rect
          class="here"
          x=${view.x}
          y=${view.y}
          width=${view.width}
          height=${view.height}
          rx="10"
        />`
      }
    </svg>
  </div>`;
}
