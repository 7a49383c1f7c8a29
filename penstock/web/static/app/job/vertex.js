// @ts-check
// One vertex of the graph: its operators and its subtasks.
import { bytes, count, duration, eventTime, hasWatermark, known, plural, rate } from "../format.js";
import { html, useLayoutEffect, useRef } from "../lib.js";
import { useLive } from "../live.js";
import { href } from "../router.js";
import { Badge, LoadBar, Resource } from "../ui.js";

/** @import { Figure, Subtask, Vertex } from "../../../types.d.ts" */

/** @param {{subtasks: Subtask[]}} props */
function Subtasks({ subtasks }) {
  return html`<div class="scroll" tabindex="0">
    <table>
      <thead>
        <tr>
          <th scope="col">Subtask</th>
          <th scope="col">State</th>
          <th scope="col">Load</th>
          <th scope="col" class="num">In</th>
          <th scope="col" class="num">Out</th>
          <th scope="col" class="num">Attempt</th>
        </tr>
      </thead>
      <tbody>${subtasks.map((each) => {
        const metrics = each.metrics ?? {};
        return html`<tr key=${each.subtask}>
          <th scope="row" title=${each.endpoint ?? each.host}>${each.subtask}</th>
          <td><${Badge} state=${each.status} /></td>
          <td style="min-width:70px">
            <${LoadBar}
              busy=${metrics["busy-ratio"] ?? metrics["accumulated-busy-ratio"]}
              pressed=${metrics["backpressured-ratio"] ?? 0}
              idle=${metrics["idle-ratio"] ?? 0}
            />
          </td>
          <td class="num">${count(metrics["read-records"])}</td>
          <td class="num">${count(metrics["write-records"])}</td>
          <td class="num">${each.attempt}</td>
        </tr>`;
      })}</tbody>
    </table>
  </div>`;
}

/**
 * @param {Figure} ins
 * @param {Figure} outs
 * @param {(value: Figure) => string} format
 */
const flow = (ins, outs, format) => (known(ins) ? `${format(ins)} in, ${format(outs)} out` : "–");

/** @param {{id: string, vertex: Vertex, now: number, close: () => void}} props */
export function VertexPanel({ id, vertex, now, close }) {
  const details = useLive(`/jobs/${id}/vertices/${vertex.id}`);
  const panel = useRef(/** @type {HTMLElement | null} */ (null));
  // Before it is painted, so that a visible panel can be closed.
  useLayoutEffect(() => {
    if (matchMedia("(max-width: 1000px)").matches)
      panel.current?.scrollIntoView({ block: "start", behavior: "smooth" });
    const onKeyDown = (/** @type {KeyboardEvent} */ event) => {
      if (event.key === "Escape" && !document.querySelector("dialog[open]")) close();
    };
    addEventListener("keydown", onKeyDown);
    return () => removeEventListener("keydown", onKeyDown);
  }, [vertex.id]);
  const to = (/** @type {string} */ tab, /** @type {string} */ text) => html`<a
    href=${href(["jobs", id, tab], { vertex: vertex.id })}
  >
    ${text}
  </a>`;
  return html`<aside class="card panel" ref=${panel} aria-label=${`Vertex ${vertex.name}`}>
    <header>
      <h2>${vertex.name}</h2>
      <button type="button" class="plain icon" aria-label="Close the vertex" onClick=${close}>
        ✕
      </button>
    </header>
    <div class="body stack">
      <dl class="pairs">
        <dt>State</dt>
        <dd><${Badge} state=${vertex.status} /></dd>
        <dt>Parallelism</dt>
        <dd>
          ${vertex.parallelism} <span class="muted">of at most ${vertex.maxParallelism}</span>
        </dd>
        <dt>Records</dt>
        <dd>${flow(vertex.recordsInPerSecond, vertex.recordsOutPerSecond, rate)}</dd>
        <dt>Bytes</dt>
        <dd>
          ${flow(vertex.bytesInPerSecond, vertex.bytesOutPerSecond, (value) => `${bytes(value)}/s`)}
        </dd>
        <dt>Watermark</dt>
        <dd>
          ${eventTime(vertex.watermark)}
          ${
            hasWatermark(vertex.watermark)
              ? html`
                ${" "}
                <span class="muted">
                  UTC, ${duration(Math.max(0, now - vertex.watermark))} behind
                </span>
              `
              : ""
          }
        </dd>
        <dt>${plural(vertex.operators.length, "Operator")}</dt>
        <dd>${vertex.operators.map(
          (each) => html`<div key=${each.id}>
            ${each.name}
            ${each.uid && html` <span class="chip">${each.uid}</span>`}
          </div>`,
        )}</dd>
      </dl>
      <div class="row small">${[
        to("metrics", "Metrics"),
        " ",
        to("backpressure", "Back-pressure"),
        " ",
        to("flame", "Flame graph"),
        " ",
        to("state", "State"),
      ]}</div>
    </div>
    <${Resource} value=${details}>${(/** @type {{subtasks: Subtask[]}} */ data) =>
      html`<${Subtasks} subtasks=${data.subtasks} />`}<//>
  </aside>`;
}
