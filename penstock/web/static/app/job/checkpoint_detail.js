// @ts-check
// What one checkpoint took, in each vertex and each subtask.
import { bytes, clock, duration, words } from "../format.js";
import { Fragment, html, useState } from "../lib.js";
import { useLive } from "../live.js";
import { Card, Resource } from "../ui.js";

/** @import { CheckpointDetail, CheckpointSubtask, Job } from "../../../types.d.ts" */

/** @param {{id: string, checkpoint: number, vertex: string}} props */
function SubtaskRows({ id, checkpoint, vertex }) {
  const value = useLive(`/jobs/${id}/checkpoints/details/${checkpoint}/subtasks/${vertex}`);
  return html`<tr>
    <td colspan="6">
      <${Resource} value=${value}>
        ${(/** @type {{subtasks: CheckpointSubtask[]}} */ data) => html`<div
          class="scroll"
          tabindex="0"
        >
          <table>
            <thead>
              <tr>
                <th scope="col">Subtask</th>
                <th scope="col" class="num">Duration</th>
                <th scope="col" class="num">Sync</th>
                <th scope="col" class="num">Async</th>
                <th scope="col" class="num">Aligned</th>
                <th scope="col" class="num">New data</th>
                <th scope="col" class="num">Full size</th>
              </tr>
            </thead>
            <tbody>${data.subtasks.map((each) =>
              each.status === "completed"
                ? html`<tr key=${each.index}>
                  <th scope="row">${each.index}</th>
                  <td class="num">${duration(each.end_to_end_duration)}</td>
                  <td class="num">${duration(each.checkpoint.sync)}</td>
                  <td class="num">${duration(each.checkpoint.async)}</td>
                  <td class="num">${duration(each.alignment.duration)}</td>
                  <td class="num">${bytes(each.checkpointed_size)}</td>
                  <td class="num">${bytes(each.state_size)}</td>
                </tr>`
                : html`<tr key=${each.index}>
                  <th scope="row">${each.index}</th>
                  <td colspan="6" class="muted">${words(each.status)}</td>
                </tr>`,
            )}</tbody>
          </table>
        </div>`}
      <//>
    </td>
  </tr>`;
}

/** @param {{id: string, checkpoint: number, job: Job}} props */
export function Detail({ id, checkpoint, job }) {
  const value = useLive(`/jobs/${id}/checkpoints/details/${checkpoint}`);
  const [open, setOpen] = useState(/** @type {string | null} */ (null));
  const names = new Map(job.vertices.map((vertex) => [vertex.id, vertex.name]));
  return html`<${Card} title=${`Checkpoint ${checkpoint}, state by operator`} flush>
    <${Resource} value=${value}>${(/** @type {CheckpointDetail} */ data) => html`<${Fragment}>
      ${
        (data.failure_message || data.external_path) &&
        html`<div class="body" style="padding:12px 16px 0">${
          data.failure_message
            ? html`<span>Failed: ${data.failure_message}</span>`
            : html`<span class="mono small break">${data.external_path}</span>`
        }</div>`
      }
      <div class="scroll" tabindex="0">
        <table>
          <thead>
            <tr>
              <th scope="col">Vertex</th>
              <th scope="col" class="num">Acknowledged</th>
              <th scope="col">Last</th>
              <th scope="col" class="num">Duration</th>
              <th scope="col" class="num">New data</th>
              <th scope="col" class="num">Full size</th>
            </tr>
          </thead>
          <tbody>${Object.entries(data.tasks).map(
            ([vertex, each]) => html`<${Fragment} key=${vertex}>
              <tr class="click" onClick=${() => setOpen(open === vertex ? null : vertex)}>
                <th scope="row">
                  <button type="button" class="link" aria-expanded=${open === vertex}>
                    ${names.get(vertex) ?? vertex}
                  </button>
                </th>
                <td class="num">${each.num_acknowledged_subtasks} / ${each.num_subtasks}</td>
                <td>${clock(each.latest_ack_timestamp)}</td>
                <td class="num">${duration(each.end_to_end_duration)}</td>
                <td class="num">${bytes(each.checkpointed_size)}</td>
                <td class="num">${bytes(each.state_size)}</td>
              </tr>
              ${
                open === vertex &&
                html`<${SubtaskRows} id=${id} checkpoint=${checkpoint} vertex=${vertex} />`
              }
            <//>`,
          )}</tbody>
        </table>
      </div>
    <//>`}<//>
  <//>`;
}
