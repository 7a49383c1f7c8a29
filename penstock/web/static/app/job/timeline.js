// When each vertex was in which state, and the states of the job.
import { html } from "../lib.js";
import { useLive } from "../live.js";
import { Badge, Card, Resource } from "../ui.js";
import { clock, duration, moment, words } from "../format.js";

const COLOURS = {
  CREATED: "var(--line-strong)", SCHEDULED: "var(--line-strong)", DEPLOYING: "var(--idle)", INITIALIZING: "var(--idle)",
  RUNNING: "color-mix(in oklab, var(--ok) 70%, var(--surface))", FINISHED: "var(--accent)", FAILED: "var(--bad)", CANCELED: "var(--muted)", CANCELING: "var(--warn)",
};
const SHOWN = ["SCHEDULED", "DEPLOYING", "INITIALIZING", "RUNNING", "FINISHED", "CANCELED", "FAILED"];
const LAST = new Set(["FINISHED", "CANCELED", "FAILED"]);

// From when a state was entered to when the next one was.
function spans(timestamps, now) {
  const entered = Object.entries(timestamps).filter(([, time]) => time > 0).sort(([, a], [, b]) => a - b);
  return entered.map(([state, start], n) => {
    const end = entered[n + 1]?.[1] ?? (LAST.has(state) ? start : now);
    return { state, start, end };
  });
}

function Track({ parts, first, last }) {
  const whole = Math.max(last - first, 1);
  return html`<div class="track">${parts.map(({ state, start, end }) => html`<div key=${state} class="span"
    title=${`${words(state)}: ${clock(start)}, for ${duration(end - start)}`}
    style=${{ left: `${((start - first) / whole) * 100}%`, width: `${(Math.max(end - start, 0) / whole) * 100}%`, background: COLOURS[state] ?? "var(--line-strong)" }}></div>`)}</div>`;
}

function Subtasks({ id, vertex, first, last }) {
  const { data } = useLive(`/jobs/${id}/vertices/${vertex.id}`);
  const merged = {};
  for (const subtask of data?.subtasks ?? []) {
    for (const [state, time] of Object.entries(subtask.timestamps ?? {})) {
      if (time > 0) merged[state] = Math.min(merged[state] ?? Infinity, time);
    }
  }
  const known = Object.keys(merged).length ? merged : vertex["start-time"] > 0 ? { RUNNING: vertex["start-time"], ...(vertex["end-time"] > 0 ? { [vertex.status]: vertex["end-time"] } : {}) } : {};
  return html`<div class="label" title=${vertex.name}>${vertex.name}</div><${Track} parts=${spans(known, last)} first=${first} last=${last} />`;
}

function Axis({ first, last }) {
  const steps = 4;
  return html`<div class="label muted small">Vertex</div><div class="axis">
    ${Array.from({ length: steps + 1 }, (_, n) => html`<span key=${n} style=${{ left: `${(n / steps) * 100}%` }}>${clock(first + ((last - first) * n) / steps)}</span>`)}</div>`;
}

export function Timeline({ id, job, now }) {
  const details = useLive(`/jobs/${id}`);
  const first = job["start-time"];
  const last = job["end-time"] > 0 ? job["end-time"] : now;
  return html`<div class="stack">
    <${Card} title="Vertices" flush actions=${html`<div class="legend">${SHOWN.filter((state) => state !== "INITIALIZING").map((state) => html`<span key=${state}><i style=${{ background: COLOURS[state] }}></i>${words(state)}</span>`)}</div>`}>
      <div class="timeline"><${Axis} first=${first} last=${last} />
        ${job.vertices.map((vertex) => html`<${Subtasks} key=${vertex.id} id=${id} vertex=${vertex} first=${first} last=${last} />`)}</div>
    <//>
    <${Card} title="States of the job" flush><${Resource} value=${details}>${(data) => html`<div class="scroll" tabindex="0"><table>
      <thead><tr><th scope="col">State</th><th scope="col">Since</th><th scope="col" class="num">After the start</th></tr></thead>
      <tbody>${Object.entries(data.timestamps).filter(([, time]) => time > 0).sort(([, a], [, b]) => a - b).map(([state, time]) => html`<tr key=${state}>
        <th scope="row"><${Badge} state=${state} /></th><td>${moment(time)}</td><td class="num">${duration(Math.max(0, time - first))}</td></tr>`)}</tbody></table></div>`}<//>
    <//>
  </div>`;
}
