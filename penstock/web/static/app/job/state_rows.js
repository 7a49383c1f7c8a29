// @ts-check
// A table of state, a page at a time, filtered by key.
import { asApiError, get, getToken, onToken, wasAborted } from "../api.js";
import { fieldOf } from "../dialog.js";
import { Fragment, html, useEffect, useState } from "../lib.js";
import { Card, Empty, ErrorNotice, Loading, Missing } from "../ui.js";
import { cell } from "./tables.js";

/** @import { Answer, Changed, StateTable } from "../../../types.d.ts" */
/** @import { ApiError } from "../api.js" */
/** @import { Live } from "../live.js" */

const ROWS = 25;

/**
 * Reads something once, and again when `round` changes. Reading state takes the token: it opens
 * what the job has pickled.
 * @template {string} P
 * @param {P} path
 * @param {number} round
 */
export function useRead(path, round) {
  const [value, setValue] = useState(/** @type {Live<Answer<P>> & {waiting?: boolean}} */ ({}));
  const [token, setToken] = useState(getToken());
  useEffect(() => onToken(setToken), []);
  useEffect(() => {
    if (!token) {
      setValue({});
      return undefined;
    }
    const stop = new AbortController();
    setValue((before) => ({ data: before.data, waiting: true }));
    get(path, { signal: stop.signal, mayAsk: false }).then(
      (data) => setValue({ data }),
      (error) => {
        if (!wasAborted(error)) setValue({ error: asApiError(error) });
      },
    );
    return () => stop.abort();
  }, [path, token, round]);
  return { ...value, token };
}

/** @param {{error: ApiError}} props */
export function Failure({ error }) {
  return error.status === 404 || error.status === 409 || error.status === 501
    ? html`<${Missing} title="There is no state to show" error=${error} />`
    : html`<div style="padding:16px"><${ErrorNotice} error=${error} /></div>`;
}

/** @param {{value: unknown, column: string}} props */
function Cell({ value, column }) {
  const { text, title, kind } = cell(value, column);
  const style = { none: "muted", time: undefined, plain: "mono break" }[kind];
  return html`<span class=${style} title=${title}>${text}</span>`;
}

/** @param {{id: string, chosen: StateTable, round: number}} props */
export function Rows({ id, chosen, round }) {
  const [offset, setOffset] = useState(0);
  const [key, setKey] = useState("");
  const [explode, setExplode] = useState(false);
  const query = new URLSearchParams({
    table: chosen.table,
    offset: String(offset),
    limit: String(ROWS),
    ...(key ? { key } : {}),
    ...(explode ? { explode: "true" } : {}),
  });
  const value = useRead(
    `/penstock/jobs/${id}/state/${encodeURIComponent(chosen.operator.id)}?${query}`,
    round,
  );
  const search = (/** @type {SubmitEvent & {currentTarget: HTMLFormElement}} */ event) => {
    event.preventDefault();
    setOffset(0);
    setKey(fieldOf(event.currentTarget, "key"));
  };
  const page = value.data;
  const nested = chosen.state?.keyed && /^(map|list)/i.test(chosen.state.kind);
  return html`<${Card}
    title=${chosen.title}
    flush
    actions=${html`<${Fragment}>
      ${
        nested &&
        html`<label class="check">
          <input
            type="checkbox"
            checked=${explode}
            onChange=${(/** @type {Changed} */ event) => {
              setOffset(0);
              setExplode(event.target.checked);
            }}
          />a row for each element
        </label>`
      }
      <form class="row" role="search" onSubmit=${search}>
        <input type="search" name="key" aria-label="Key" placeholder="Key" />
        <button type="submit">Find</button>
      </form>
    <//>`}
    footer=${
      page &&
      html`<div class="row between">
        <span>
          ${page.rows.length ? `Rows ${offset + 1} to ${offset + page.rows.length}` : "No rows"}
          ${key ? ` with key ${key}` : ""}, checkpoint ${page.checkpoint.id}
          ${page.incomplete ? "; not all was looked at" : ""}
        </span>
        <span class="row">
          <button
            type="button"
            disabled=${!offset || value.waiting}
            onClick=${() => setOffset(Math.max(0, offset - ROWS))}
          >
            Previous
          </button>
          <button
            type="button"
            disabled=${!page.more || value.waiting}
            onClick=${() => setOffset(offset + ROWS)}
          >
            Next
          </button>
        </span>
      </div>`
    }
  >${
    value.error
      ? html`<${Failure} error=${value.error} />`
      : !page
        ? html`<div style="padding:16px"><${Loading} /></div>`
        : !page.rows.length
          ? html`<${Empty} title=${key ? "No such key" : "The table is empty"} />`
          : html`<div class="scroll" tabindex="0">
            <table data-rows>
              <thead>
                <tr>${page.columns.map(
                  (column) => html`<th key=${column} scope="col">${column}</th>`,
                )}</tr>
              </thead>
              <tbody>${page.rows.map(
                (row, n) =>
                  html`<tr key=${n}>${row.map(
                    (cell, at) => html`<td key=${at}>
                      <${Cell} value=${cell} column=${page.columns[at]} />
                    </td>`,
                  )}</tr>`,
              )}</tbody>
            </table>
          </div>`
  }<//>`;
}
