// @ts-check
// With which options the job runs.
import { words } from "../format.js";
import { html, useState } from "../lib.js";
import { useLive } from "../live.js";
import { Card, Empty, Resource } from "../ui.js";

/** @import { Answer, Changed, TabProps } from "../../../types.d.ts" */

/** @param {{title: string, options: Record<string, unknown>}} props */
function Options({ title, options }) {
  const [text, setText] = useState("");
  const found = Object.entries(options)
    .filter(([key, value]) => `${key} ${value}`.toLowerCase().includes(text.toLowerCase()))
    .sort(([a], [b]) => a.localeCompare(b));
  return html`<${Card}
    title=${title}
    flush
    actions=${html`<input
      type="search"
      aria-label="Find an option"
      placeholder="Find an option"
      value=${text}
      onInput=${(/** @type {Changed} */ event) => setText(event.target.value)}
    />`}
  >${
    found.length
      ? html`<div class="scroll" tabindex="0">
        <table>
          <thead><tr><th scope="col">Option</th><th scope="col">Value</th></tr></thead>
          <tbody>${found.map(
            ([key, value]) => html`<tr key=${key}>
              <th scope="row" class="mono">${key}</th>
              <td class="mono break">
                ${typeof value === "object" ? JSON.stringify(value) : String(value)}
              </td>
            </tr>`,
          )}</tbody>
        </table>
      </div>`
      : html`<${Empty}
        title=${text ? "No matching option" : "All options have their defaults"}
      />`
  }<//>`;
}

/** @param {TabProps} props */
export function Configuration({ id }) {
  const value = useLive(`/jobs/${id}/config`);
  return html`<${Resource} value=${value} missing="The configuration is unknown">
    ${(/** @type {Answer<`/jobs/${string}/config`>} */ data) => {
      const { "user-config": user = {}, ...execution } = data["execution-config"] ?? {};
      return html`<div class="stack">
        <${Card} title="Execution">
          <dl class="pairs">${Object.entries(execution).map(
            ([key, each]) => html`
              <dt key=${key}>${words(key.replaceAll("-", " "))}</dt>
              <dd>${String(each)}</dd>
            `,
          )}</dl>
        <//>
        <${Options} title="Options" options=${user} />
      </div>`;
    }}
  <//>`;
}
