// @ts-check
// Which subtasks are busy, and which wait for those that follow.
import { share } from "../format.js";
import { html } from "../lib.js";
import { useLive } from "../live.js";
import { go } from "../router.js";
import { Card, Empty, LoadBar, LoadLegend, Resource } from "../ui.js";
import { bottleneck, level } from "./load.js";

/** @import { SubtaskLoad, TabProps, Vertex } from "../../../types.d.ts" */

/** @type {Record<string, [tone: string, label: string]>} */
const LEVELS = { ok: ["ok", "OK"], low: ["warn", "LOW"], high: ["bad", "HIGH"] };

/** @param {{value?: string}} props */
function Level({ value }) {
  const [tone, label] = LEVELS[value ?? ""] ?? ["", "unknown"];
  return html`<span class="badge" data-tone=${tone}>${label}</span>`;
}

/** @param {{id: string, vertex: Vertex}} props */
function Subtasks({ id, vertex }) {
  const value = useLive(`/jobs/${id}/vertices/${vertex.id}/backpressure`);
  return html`<${Card} title=${`Subtasks of ${vertex.name}`} flush>
    <${Resource} value=${value}>${(/** @type {{subtasks?: SubtaskLoad[]}} */ data) =>
      !data.subtasks?.length
        ? html`<${Empty} title="Not measured" picture="wait">
          Tasks of a pipelined job report their load once a second.
        <//>`
        : html`<div class="scroll" tabindex="0">
          <table>
            <thead>
              <tr>
                <th scope="col">Subtask</th>
                <th scope="col">Level</th>
                <th scope="col">Load</th>
                <th scope="col" class="num">Busy</th>
                <th scope="col" class="num">Back-pressured</th>
                <th scope="col" class="num">Idle</th>
              </tr>
            </thead>
            <tbody>${data.subtasks.map(
              (each) => html`<tr key=${each.subtask}>
                <th scope="row">${each.subtask}</th>
                <td><${Level} value=${each.backpressureLevel ?? each["backpressure-level"]} /></td>
                <td style="min-width:120px">
                  <${LoadBar} busy=${each.busyRatio} pressed=${each.ratio} idle=${each.idleRatio} />
                </td>
                <td class="num">${share(each.busyRatio)}</td>
                <td class="num">${share(each.ratio)}</td>
                <td class="num">${share(each.idleRatio)}</td>
              </tr>`,
            )}</tbody>
          </table>
        </div>`}<//>
  <//>`;
}

/** @param {TabProps} props */
export function BackPressure({ id, job, query, tab }) {
  const chosen = job.vertices.find((vertex) => vertex.id === query.vertex);
  const worst = bottleneck(job.vertices);
  return html`<div class="stack">
    <${Card}
      title="Vertices"
      flush
      actions=${html`<${LoadLegend} />`}
      footer=${
        worst
          ? html`
            The bottleneck is probably <strong>${worst.name}</strong>: it is busy, and those before
            it wait.
          `
          : undefined
      }
    >
      <div class="scroll" tabindex="0">
        <table>
          <thead>
            <tr>
              <th scope="col">Vertex</th>
              <th scope="col">Level</th>
              <th scope="col">Load</th>
              <th scope="col" class="num">Busy (max)</th>
              <th scope="col" class="num">Back-pressured (max)</th>
              <th scope="col" class="num">Idle (min)</th>
            </tr>
          </thead>
          <tbody>${job.vertices.map(
            (vertex) => html`<tr
              key=${vertex.id}
              class="click"
              aria-selected=${vertex === chosen}
              onClick=${() => go(["jobs", id, tab], { vertex: vertex.id })}
            >
              <th scope="row"><button type="button" class="link">${vertex.name}</button></th>
              <td><${Level} value=${level(vertex.backPressured)} /></td>
              <td style="min-width:120px">
                <${LoadBar}
                  busy=${vertex.busy}
                  pressed=${vertex.backPressured}
                  idle=${vertex.idle}
                />
              </td>
              <td class="num">${share(vertex.busy)}</td>
              <td class="num">${share(vertex.backPressured)}</td>
              <td class="num">${share(vertex.idle)}</td>
            </tr>`,
          )}</tbody>
        </table>
      </div>
    <//>
    ${chosen && html`<${Subtasks} key=${chosen.id} id=${id} vertex=${chosen} />`}
  </div>`;
}
