// @ts-check
// Checkpoints: how many, how large, how long, and what each took in which operator.
import { bytes, clock, count, duration, moment, words } from "../format.js";
import { html, useState } from "../lib.js";
import { useLive } from "../live.js";
import { Badge, Card, Empty, Resource, Stats } from "../ui.js";
import { SavepointDialog } from "./actions.js";
import { Detail } from "./checkpoint_detail.js";

/** @import { Checkpoint, CheckpointConfig, Checkpoints as Answer } from "../../../types.d.ts" */
/** @import { TabProps } from "../../../types.d.ts" */

/**
 * @typedef {object} HistoryProps
 * @property {Checkpoint[]} history
 * @property {number | null} selected
 * @property {(id: number) => void} onSelect
 */

/** @param {HistoryProps} props */
function History({ history, selected, onSelect }) {
  return html`<div class="scroll" tabindex="0">
    <table>
      <thead>
        <tr>
          <th scope="col">Id</th>
          <th scope="col">Status</th>
          <th scope="col" class="num">Acknowledged</th>
          <th scope="col">Triggered</th>
          <th scope="col" class="num">Duration</th>
          <th scope="col" class="num">New data</th>
          <th scope="col" class="num">Full size</th>
        </tr>
      </thead>
      <tbody>${history.map(
        (each) => html`<tr
          key=${each.id}
          class="click"
          aria-selected=${each.id === selected}
          onClick=${() => onSelect(each.id)}
        >
          <th scope="row">
            <button type="button" class="link" aria-expanded=${each.id === selected}>
              ${each.is_savepoint ? "Savepoint" : "Checkpoint"} ${each.id}
            </button>
          </th>
          <td><${Badge} state=${each.status} /></td>
          <td class="num">${each.num_acknowledged_subtasks} / ${each.num_subtasks}</td>
          <td class="nowrap">${clock(each.trigger_timestamp)}</td>
          <td class="num">${duration(each.end_to_end_duration)}</td>
          <td class="num">${bytes(each.checkpointed_size ?? each.state_size)}</td>
          <td class="num">${bytes(each.state_size)}</td>
        </tr>`,
      )}</tbody>
    </table>
  </div>`;
}

/**
 * @typedef {object} ColumnsProps
 * @property {string} title
 * @property {Checkpoint[]} history
 * @property {(checkpoint: Checkpoint) => number} of
 * @property {(value: number) => string} format
 */

/** @param {ColumnsProps} props */
function Columns({ title, history, of, format }) {
  const values = [...history].reverse();
  const most = Math.max(1, ...values.map(of));
  return html`<${Card}
    title=${title}
    actions=${html`<span class="muted small">up to ${format(most)}</span>`}
  >
    <div
      class="histogram"
      role="img"
      aria-label=${`${title}: ${values.map((each) => format(of(each))).join(", ")}`}
    >${values.map(
      (each) => html`<div
        key=${each.id}
        class=${`column ${each.status === "FAILED" ? "failed" : ""}`}
        title=${`Checkpoint ${each.id}: ${format(of(each))}`}
      >
        <i style=${{ height: `${(of(each) / most) * 100}%` }}></i>
      </div>`,
    )}</div>
  <//>`;
}

/** @param {{id: string}} props */
function Settings({ id }) {
  const value = useLive(`/jobs/${id}/checkpoints/config`);
  const time = (/** @type {number} */ ms) => (ms > 1e15 ? "never" : duration(ms));
  return html`<${Card} title="Checkpoint configuration">
    <${Resource} value=${value}>${(/** @type {CheckpointConfig} */ data) => html`<dl class="pairs">
      <dt>Mode</dt>
      <dd>${words(data.mode)}${data.unaligned_checkpoints ? ", unaligned" : ""}</dd>
      <dt>Interval</dt>
      <dd>${time(data.interval)}</dd>
      <dt>Timeout</dt>
      <dd>${time(data.timeout)}</dd>
      <dt>Minimum pause</dt>
      <dd>${time(data.min_pause)}</dd>
      <dt>State backend</dt>
      <dd>${data.state_backend}</dd>
      <dt>Storage</dt>
      <dd class="mono small">${data.checkpoint_storage}</dd>
    </dl>`}<//>
  <//>`;
}

/** @param {TabProps} props */
export function Checkpoints({ id, job }) {
  const value = useLive(`/jobs/${id}/checkpoints`);
  const [selected, setSelected] = useState(/** @type {number | null} */ (null));
  const [asking, setAsking] = useState(false);
  const ended = job["end-time"] > 0;
  return html`<${Resource} value=${value}>${(/** @type {Answer} */ data) => {
    const { counts, latest, summary, history } = data;
    return html`<div class="stack">
      <${Stats}
        items=${[
          { name: "Completed", value: count(counts.completed) },
          { name: "Failed", value: count(counts.failed) },
          { name: "In progress", value: count(counts.in_progress) },
          { name: "Restored", value: count(counts.restored) },
          {
            name: "Duration, average",
            value: duration(summary.end_to_end_duration.avg),
            unit: `p99 ${duration(summary.end_to_end_duration.p99)}`,
          },
          { name: "Full size", value: bytes(latest.completed?.state_size) },
        ]}
      />
      <${Card}
        title="History"
        flush
        actions=${html`<button type="button" disabled=${ended} onClick=${() => setAsking(true)}>
          Take a savepoint
        </button>`}
      >${
        history.length
          ? html`<${History}
            history=${history}
            selected=${selected}
            onSelect=${(/** @type {number} */ next) => setSelected(next === selected ? null : next)}
          />`
          : html`<${Empty} title="No checkpoint yet" picture="wait">
            The first one comes with the interval, or when you take a savepoint.
          <//>`
      }<//>
      ${
        selected !== null &&
        html`<${Detail} key=${selected} id=${id} checkpoint=${selected} job=${job} />`
      }
      ${
        history.length > 1 &&
        html`<div class="split">
          <${Columns}
            title="Duration"
            history=${history}
            of=${(/** @type {Checkpoint} */ each) => each.end_to_end_duration ?? 0}
            format=${duration}
          />
          <${Columns}
            title="Full size"
            history=${history}
            of=${(/** @type {Checkpoint} */ each) => each.state_size ?? 0}
            format=${bytes}
          />
        </div>`
      }
      <div class="split">
        ${
          (latest.savepoint || latest.restored) &&
          html`<${Card} title="Savepoint and restore">
            <dl class="pairs">
              ${
                latest.savepoint &&
                html`
                  <dt>Last savepoint</dt>
                  <dd class="mono small">${latest.savepoint.external_path}</dd>
                `
              }
              ${
                latest.restored &&
                html`
                  <dt>Restored from</dt>
                  <dd>
                    Checkpoint ${latest.restored.id}, ${moment(latest.restored.restore_timestamp)}
                  </dd>
                `
              }
            </dl>
          <//>`
        }
        <${Settings} id=${id} />
      </div>
      ${asking && html`<${SavepointDialog} job=${job} close=${() => setAsking(false)} />`}
    </div>`;
  }}<//>`;
}
