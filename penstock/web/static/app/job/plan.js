// @ts-check
// What the job was compiled to: vertices, operators, how records travel between them.
import { html, useState } from "../lib.js";
import { useLive } from "../live.js";
import { Card, Copy, Resource, Segmented } from "../ui.js";

/** @import { Operator, PlanNode, TabProps } from "../../../types.d.ts" */

/** @param {{node: PlanNode, names: Map<string, string>}} props */
function Inputs({ node, names }) {
  if (!node.inputs?.length) return html`<span class="muted">source</span>`;
  return node.inputs.map(
    (input) => html`<div key=${input.id}>
      ${names.get(input.id) ?? input.id} <span class="chip">${input.ship_strategy}</span>
    </div>`,
  );
}

/** @param {{nodes: PlanNode[], operators: Map<string, Operator[]>}} props */
function Tree({ nodes, operators }) {
  const names = new Map(nodes.map((node) => [node.id, text(node.description) || node.id]));
  return html`<div class="scroll" tabindex="0">
    <table>
      <thead>
        <tr>
          <th scope="col">Vertex</th>
          <th scope="col" class="num">Parallelism</th>
          <th scope="col">Operators</th>
          <th scope="col">Inputs</th>
        </tr>
      </thead>
      <tbody>${nodes.map(
        (node) => html`<tr key=${node.id}>
          <th scope="row">
            <strong>${names.get(node.id)}</strong>
            <div class="mono muted small">${node.id}</div>
          </th>
          <td class="num">${node.parallelism}</td>
          <td>${(operators.get(node.id) ?? []).map(
            (each) => html`<div key=${each.id}>
              ${each.name}
              ${each.uid && html` <span class="chip">${each.uid}</span>`}
            </div>`,
          )}</td>
          <td><${Inputs} node=${node} names=${names} /></td>
        </tr>`,
      )}</tbody>
    </table>
  </div>`;
}

/**
 * Descriptions may hold HTML entities and breaks, for pages that paste them; here they are text.
 * @param {string | undefined} description
 */
function text(description) {
  return new DOMParser()
    .parseFromString((description ?? "").replaceAll("<br/>", " "), "text/html")
    .body.textContent.trim();
}

/** @param {TabProps} props */
export function Plan({ id, job }) {
  const value = useLive(`/jobs/${id}/plan`);
  const [view, setView] = useState("table");
  const operators = new Map(job.vertices.map((vertex) => [vertex.id, vertex.operators]));
  return html`<${Resource} value=${value} missing="The plan is unknown">
    ${(/** @type {{plan: {nodes: PlanNode[]}}} */ data) => {
      const json = JSON.stringify(data.plan, null, 2);
      return html`<${Card}
        title="Plan"
        flush=${view === "table"}
        actions=${html`
          <${Segmented}
            label="How"
            options=${[["table", "Table"], ["json", "JSON"]]}
            value=${view}
            onChange=${setView}
          />
          <${Copy} text=${json} label="Copy JSON" />
        `}
      >${
        view === "table"
          ? html`<${Tree} nodes=${data.plan.nodes} operators=${operators} />`
          : html`<pre class="text" tabindex="0" aria-label="The plan as JSON">${json}</pre>`
      }<//>`;
    }}
  <//>`;
}
