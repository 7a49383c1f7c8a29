// The state browser: tables of the last checkpoint, a page at a time, filtered by key.
import { Fragment, html, useEffect, useState } from "../lib.js";
import { get, getToken, login, onToken } from "../api.js";
import { Card, Empty, ErrorNotice, Loading, Notice } from "../ui.js";
import { bytes, count, eventTime, known, plural } from "../format.js";

const ROWS = 25;

// Reads something once, and again when `keys` change. Reading state takes the token: it opens what the job has pickled.
function useRead(path, keys) {
  const [value, setValue] = useState({});
  const [token, setToken] = useState(getToken());
  useEffect(() => onToken(setToken), []);
  useEffect(() => {
    if (!path || !token) { setValue({}); return undefined; }
    const stop = new AbortController();
    setValue((before) => ({ data: before.data, waiting: true }));
    get(path, { signal: stop.signal, mayAsk: false }).then((data) => setValue({ data }), (error) => { if (error.name !== "AbortError") setValue({ error }); });
    return () => stop.abort();
  }, [path, token, ...keys]);
  return { ...value, token };
}

function Failure({ error }) {
  return error.status === 404 || error.status === 409 || error.status === 501
    ? html`<${Empty} title="There is no state to show">${[error.message, ...error.details].join(" · ")}<//>` : html`<div style="padding:16px"><${ErrorNotice} error=${error} /></div>`;
}

function Cell({ value, column }) {
  if (value === null || value === undefined) return html`<span class="muted">none</span>`;
  if (typeof value === "number" && /^(timestamp|start|end|watermark|fires_at|window_start|window_end)$/.test(column) && value > 1e11) return html`<span title=${value}>${eventTime(value)}</span>`;
  const text = typeof value === "object" ? JSON.stringify(value) : String(value);
  return html`<span class="mono break" title=${text.length > 160 ? text.slice(0, 2000) : undefined}>${text.length > 160 ? `${text.slice(0, 160)}…` : text}</span>`;
}

function Rows({ id, chosen, round }) {
  const [offset, setOffset] = useState(0);
  const [key, setKey] = useState("");
  const [explode, setExplode] = useState(false);
  const query = new URLSearchParams({ table: chosen.table, offset: String(offset), limit: String(ROWS), ...(key ? { key } : {}), ...(explode ? { explode: "true" } : {}) });
  const value = useRead(`/penstock/jobs/${id}/state/${encodeURIComponent(chosen.operator.id)}?${query}`, [round]);
  const search = (event) => { event.preventDefault(); setOffset(0); setKey(event.currentTarget.elements.key.value.trim()); };
  const page = value.data;
  const nested = chosen.state?.keyed && /^(map|list)/i.test(chosen.state.kind);
  return html`<${Card} title=${chosen.title} flush actions=${html`<${Fragment}>
      ${nested && html`<label class="check"><input type="checkbox" checked=${explode} onChange=${(event) => { setOffset(0); setExplode(event.target.checked); }} />a row for each element</label>`}
      <form class="row" role="search" onSubmit=${search}><input type="search" name="key" aria-label="Key" placeholder="Key" /><button type="submit">Find</button></form><//>`}
    footer=${page && html`<div class="row between"><span>${page.rows.length ? `Rows ${offset + 1} to ${offset + page.rows.length}` : "No rows"}${key ? ` with key ${key}` : ""}, checkpoint ${page.checkpoint.id}${page.incomplete ? "; not all was looked at" : ""}</span>
      <span class="row"><button type="button" disabled=${!offset || value.waiting} onClick=${() => setOffset(Math.max(0, offset - ROWS))}>Previous</button>
      <button type="button" disabled=${!page.more || value.waiting} onClick=${() => setOffset(offset + ROWS)}>Next</button></span></div>`}>
    ${value.error ? html`<${Failure} error=${value.error} />` : !page ? html`<div style="padding:16px"><${Loading} /></div>`
      : !page.rows.length ? html`<${Empty} title=${key ? "No such key" : "The table is empty"} />`
      : html`<div class="scroll" tabindex="0"><table data-rows><thead><tr>${page.columns.map((column) => html`<th key=${column} scope="col">${column}</th>`)}</tr></thead>
        <tbody>${page.rows.map((row, n) => html`<tr key=${n}>${row.map((cell, at) => html`<td key=${at}><${Cell} value=${cell} column=${page.columns[at]} /></td>`)}</tr>`)}</tbody></table></div>`}
  <//>`;
}

// What operators of the library remember, rather than the user's code.
const own = (each) => each.state?.internal;

function tables(operators) {
  return operators.flatMap((operator) => [
    ...operator.states.map((state) => ({ operator, state, table: state.table ?? state.name, title: `${state.name}, of ${operator.name}` })),
    ...(operator.states.some((state) => state.keyed) ? [{ operator, table: "timers", title: `Timers of ${operator.name}` }] : []),
  ]);
}

export function StateBrowser({ id, job, query }) {
  const [round, setRound] = useState(0);
  const value = useRead(`/penstock/jobs/${id}/state`, [round]);
  const [at, setAt] = useState(null);
  const [inner, setInner] = useState(false);
  if (!value.token) {
    return html`<${Card}><${Notice} tone="info">State is what the job's own code has pickled. To look into it, log in with the token of the JobManager.<//>
      <p style="margin-top:12px"><button type="button" class="primary" onClick=${() => login("State can be read with the token only.")}>Log in</button></p><//>`;
  }
  if (value.error) return html`<${Card} flush><${Failure} error=${value.error} /><//>`;
  if (!value.data) return html`<${Card}><${Loading} lines=${6} label="Reading the checkpoint" /><//>`;
  const { checkpoint, operators } = value.data;
  const vertex = job.vertices.find((each) => each.id === query.vertex);
  const wanted = vertex ? new Set(vertex.operators.map((each) => each.id)) : null;
  const all = tables(operators.filter((operator) => !wanted || wanted.has(operator.id)));
  const shown = all.filter((each) => inner || !own(each));
  const toggle = all.some(own) && html`<label class="check"><input type="checkbox" checked=${inner} onChange=${(event) => setInner(event.target.checked)} />also what Penstock keeps for itself</label>`;
  const chosen = shown.find((each) => `${each.operator.id} ${each.table}` === at);
  return html`<div class="stack">
    <${Card} title=${`State of checkpoint ${checkpoint.id}`} flush actions=${html`${toggle}<button type="button" disabled=${value.waiting} onClick=${() => setRound(round + 1)}>Read the newest</button>`}
      footer=${`${plural(operators.length, "operator")}, ${bytes(operators.reduce((sum, each) => sum + (each.size ?? 0), 0))} in all`}>
      ${!shown.length ? html`<${Empty} title=${vertex ? "This vertex keeps no state" : "This job keeps no state"} />` : html`<div class="scroll" tabindex="0"><table>
        <thead><tr><th scope="col">State</th><th scope="col">Operator</th><th scope="col">Kind</th><th scope="col">Type</th><th scope="col">Expires</th><th scope="col" class="num">Entries</th><th scope="col" class="num">Size</th></tr></thead>
        <tbody>${shown.map((each) => {
          const key = `${each.operator.id} ${each.table}`;
          const state = each.state;
          return html`<tr key=${key} class="click" aria-selected=${key === at} onClick=${() => setAt(key === at ? null : key)}>
            <th scope="row"><button type="button" class="link" aria-expanded=${key === at}>${state ? state.name : "timers"}</button></th><td>${each.operator.name}</td><td>${state?.kind ?? "timers"}</td>
            <td class="mono small break">${state?.type ?? ""}</td><td>${!state ? "" : state.expires ? String(state.expires) : html`<span class="muted">never</span>`}</td>
            <td class="num">${known(state?.entries) ? count(state.entries) : "–"}</td><td class="num">${bytes(state?.size)}</td></tr>`;
        })}</tbody></table></div>`}
    <//>
    ${chosen && html`<${Rows} key=${at} id=${id} chosen=${chosen} round=${round} />`}
  </div>`;
}
