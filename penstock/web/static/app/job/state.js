// @ts-check
// The state browser: which tables of state the last checkpoint has.
import { login } from "../api.js";
import { bytes, count, plural } from "../format.js";
import { html, useState } from "../lib.js";
import { Card, Empty, Loading, Notice } from "../ui.js";
import { Failure, Rows, useRead } from "./state_rows.js";
import { isInternal, tables } from "./tables.js";

/** @import { Changed, TabProps } from "../../../types.d.ts" */

/** @param {TabProps} props */
export function StateBrowser({ id, job, query }) {
  const [round, setRound] = useState(0);
  const value = useRead(`/penstock/jobs/${id}/state`, round);
  const [at, setAt] = useState(/** @type {string | null} */ (null));
  const [inner, setInner] = useState(false);
  if (!value.token) {
    return html`<${Card}>
      <${Notice} tone="info">
        State is what the job's own code has pickled. To look into it, log in with the token of the
        JobManager.
      <//>
      <p style="margin-top:12px">
        <button
          type="button"
          class="primary"
          onClick=${() => login("State can be read with the token only.")}
        >
          Log in
        </button>
      </p>
    <//>`;
  }
  if (value.error) return html`<${Card} flush><${Failure} error=${value.error} /><//>`;
  if (!value.data)
    return html`<${Card}><${Loading} lines=${6} label="Reading the checkpoint" /><//>`;
  const { checkpoint, operators } = value.data;
  const vertex = job.vertices.find((each) => each.id === query.vertex);
  const wanted = vertex ? new Set(vertex.operators.map((each) => each.id)) : null;
  const all = tables(operators.filter((operator) => !wanted || wanted.has(operator.id)));
  const shown = all.filter((each) => inner || !isInternal(each));
  const toggle =
    all.some(isInternal) &&
    html`<label class="check">
      <input
        type="checkbox"
        checked=${inner}
        onChange=${(/** @type {Changed} */ event) => setInner(event.target.checked)}
      />also what Penstock keeps for itself
    </label>`;
  const size = operators.reduce((sum, each) => sum + (each.size ?? 0), 0);
  const chosen = shown.find((each) => `${each.operator.id} ${each.table}` === at);
  return html`<div class="stack">
    <${Card}
      title=${`State of checkpoint ${checkpoint.id}`}
      flush
      actions=${html`
        ${toggle}
        <button type="button" disabled=${value.waiting} onClick=${() => setRound(round + 1)}>
          Read the newest
        </button>
      `}
      footer=${`${plural(operators.length, "operator")}, ${bytes(size)} in all`}
    >${
      !shown.length
        ? html`<${Empty}
          title=${vertex ? "This vertex keeps no state" : "This job keeps no state"}
        />`
        : html`<div class="scroll" tabindex="0">
          <table>
            <thead>
              <tr>
                <th scope="col">State</th>
                <th scope="col">Operator</th>
                <th scope="col">Kind</th>
                <th scope="col">Type</th>
                <th scope="col">Expires</th>
                <th scope="col" class="num">Entries</th>
                <th scope="col" class="num">Size</th>
              </tr>
            </thead>
            <tbody>${shown.map((each) => {
              const key = `${each.operator.id} ${each.table}`;
              const state = each.state;
              return html`<tr
                key=${key}
                class="click"
                aria-selected=${key === at}
                onClick=${() => setAt(key === at ? null : key)}
              >
                <th scope="row">
                  <button type="button" class="link" aria-expanded=${key === at}>
                    ${state ? state.name : "timers"}
                  </button>
                </th>
                <td>${each.operator.name}</td>
                <td>${state?.kind ?? "timers"}</td>
                <td class="mono small break">${state?.type ?? ""}</td>
                <td>${
                  !state
                    ? ""
                    : state.expires
                      ? String(state.expires)
                      : html`<span class="muted">never</span>`
                }</td>
                <td class="num">${count(state?.entries)}</td>
                <td class="num">${bytes(state?.size)}</td>
              </tr>`;
            })}</tbody>
          </table>
        </div>`
    }<//>
    ${chosen && html`<${Rows} key=${at} id=${id} chosen=${chosen} round=${round} />`}
  </div>`;
}
