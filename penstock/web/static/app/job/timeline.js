// @ts-check
// When each vertex was in which state, and the states of the job.
import { clock, duration, moment, words } from "../format.js";
import { html } from "../lib.js";
import { useLive } from "../live.js";
import { Badge, Card, Resource } from "../ui.js";
import { entered, firstTimes, spans } from "./spans.js";

/** @import { TabProps, Timestamps, Vertex } from "../../../types.d.ts" */
/** @import { Span } from "./spans.js" */

/** @type {Record<string, string>} */
const COLOURS = {
  CREATED: "var(--line-strong)",
  SCHEDULED: "var(--line-strong)",
  DEPLOYING: "var(--idle)",
  INITIALIZING: "var(--idle)",
  RUNNING: "color-mix(in oklab, var(--ok) 70%, var(--surface))",
  FINISHED: "var(--accent)",
  FAILED: "var(--bad)",
  CANCELED: "var(--muted)",
  CANCELING: "var(--warn)",
};
const SHOWN = ["SCHEDULED", "DEPLOYING", "RUNNING", "FINISHED", "CANCELED", "FAILED"];
/** @param {{parts: Span[], first: number, last: number}} props */
function Track({ parts, first, last }) {
  const whole = Math.max(last - first, 1);
  return html`<div class="track">${parts.map(
    ({ state, start, end }) => html`<div
      key=${state}
      class="span"
      title=${`${words(state)}: ${clock(start)}, for ${duration(end - start)}`}
      style=${{
        left: `${((start - first) / whole) * 100}%`,
        width: `${(Math.max(end - start, 0) / whole) * 100}%`,
        background: COLOURS[state] ?? "var(--line-strong)",
      }}
    ></div>`,
  )}</div>`;
}

/** @param {{id: string, vertex: Vertex, first: number, last: number}} props */
function Subtasks({ id, vertex, first, last }) {
  const { data } = useLive(`/jobs/${id}/vertices/${vertex.id}`);
  const times = firstTimes(vertex, data?.subtasks ?? []);
  return html`
    <div class="label" title=${vertex.name}>${vertex.name}</div>
    <${Track} parts=${spans(times, last)} first=${first} last=${last} />
  `;
}

/** @param {{first: number, last: number}} props */
function Axis({ first, last }) {
  const steps = 4;
  return html`
    <div class="label muted small">Vertex</div>
    <div class="axis">${Array.from(
      { length: steps + 1 },
      (_, n) => html`<span key=${n} style=${{ left: `${(n / steps) * 100}%` }}>
        ${clock(first + ((last - first) * n) / steps)}
      </span>`,
    )}</div>
  `;
}

/** @param {TabProps} props */
export function Timeline({ id, job, now }) {
  const details = useLive(`/jobs/${id}`);
  const first = job["start-time"];
  const last = job["end-time"] > 0 ? job["end-time"] : now;
  return html`<div class="stack">
    <${Card}
      title="Vertices"
      flush
      actions=${html`<div class="legend">${SHOWN.map(
        (state) => html`<span key=${state}>
          <i style=${{ background: COLOURS[state] }}></i>
          ${words(state)}
        </span>`,
      )}</div>`}
    >
      <div class="timeline">
        <${Axis} first=${first} last=${last} />
        ${job.vertices.map(
          (vertex) => html`<${Subtasks}
            key=${vertex.id}
            id=${id}
            vertex=${vertex}
            first=${first}
            last=${last}
          />`,
        )}
      </div>
    <//>
    <${Card} title="States of the job" flush>
      <${Resource} value=${details}>
        ${(/** @type {{timestamps: Timestamps}} */ data) => html`<div class="scroll" tabindex="0">
          <table>
            <thead>
              <tr>
                <th scope="col">State</th>
                <th scope="col">Since</th>
                <th scope="col" class="num">After the start</th>
              </tr>
            </thead>
            <tbody>${entered(data.timestamps).map(
              ([state, time]) => html`<tr key=${state}>
                <th scope="row"><${Badge} state=${state} /></th>
                <td>${moment(time)}</td>
                <td class="num">${duration(Math.max(0, time - first))}</td>
              </tr>`,
            )}</tbody>
          </table>
        </div>`}
      <//>
    <//>
  </div>`;
}
