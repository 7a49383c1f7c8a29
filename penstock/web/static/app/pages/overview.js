// @ts-check
// All jobs, the slots, and whether all is well.
import { count, duration, moment, plural, shortId, words } from "../format.js";
import { filtered, hasEnded, totals, troubled } from "../jobs.js";
import { html, useEffect, useMemo, useState } from "../lib.js";
import { useLive } from "../live.js";
import { go, href } from "../router.js";
import { Badge, Card, Empty, ErrorNotice, Loading, Notice, Segmented, Stats } from "../ui.js";

/** @import { Choice, JobRow, Overview as Cluster } from "../../../types.d.ts" */

/** @param {{jobs: JobRow[]}} props */
function Health({ jobs }) {
  const found = troubled(jobs);
  if (found.length) {
    return html`<${Notice} tone="warn">
      <strong>
        ${plural(found.length, "job")} ${found.length === 1 ? "needs" : "need"} attention:${" "}
      </strong>
      ${found.map(
        (job, n) => html`
          ${n ? ", " : ""}
          <a href=${href(["jobs", job.jid, "exceptions"])}>${job.name}</a> is ${words(job.state)}
        `,
      )}
    <//>`;
  }
  return null;
}

/** @param {{overview: Cluster}} props */
function Slots({ overview }) {
  const total = overview["slots-total"] ?? 0;
  const used = total - (overview["slots-available"] ?? 0);
  if (!total) return "–";
  return html`${used} <small>of ${total} used</small>`;
}

/** @param {{tasks: JobRow["tasks"]}} props */
function Tasks({ tasks }) {
  const done = (tasks.running ?? 0) + (tasks.finished ?? 0);
  return html`<span
    title=${Object.entries(tasks)
      .filter(([name, number]) => number && name !== "total")
      .map(([name, number]) => `${number} ${name}`)
      .join(", ")}
  >
    ${done}
    <span class="muted"> / ${tasks.total}</span>
  </span>`;
}

/** @param {{jobs: JobRow[], now: number}} props */
function JobTable({ jobs, now }) {
  return html`<div class="scroll" tabindex="0">
    <table>
      <thead>
        <tr>
          <th scope="col">Name</th>
          <th scope="col">State</th>
          <th scope="col" class="num">Tasks</th>
          <th scope="col" class="num">Duration</th>
          <th scope="col" class="roomy">Started</th>
          <th scope="col" class="roomy">Id</th>
        </tr>
      </thead>
      <tbody>${jobs.map(
        (job) => html`<tr
          key=${job.jid}
          class="click"
          onClick=${(/** @type {{target: Element}} */ event) => {
            if (!event.target.closest("a")) go(["jobs", job.jid]);
          }}
        >
          <th scope="row"><a class="name" href=${href(["jobs", job.jid])}>${job.name}</a></th>
          <td><${Badge} state=${job.state} /></td>
          <td class="num"><${Tasks} tasks=${job.tasks} /></td>
          <td class="num">${duration(hasEnded(job) ? job.duration : now - job["start-time"])}</td>
          <td class="nowrap roomy">${moment(job["start-time"])}</td>
          <td class="mono muted roomy">${shortId(job.jid)}</td>
        </tr>`,
      )}</tbody>
    </table>
  </div>`;
}

/** @type {Choice[]} */
const FILTERS = [
  ["all", "All"],
  ["running", "Running"],
  ["ended", "Ended"],
];

export function Overview() {
  const jobs = useLive("/jobs/overview");
  const overview = useLive("/overview");
  const [filter, setFilter] = useState("all");
  useEffect(() => {
    document.title = "Jobs · Penstock";
  }, []);
  const all = jobs.data?.jobs ?? [];
  const shown = useMemo(() => filtered(all, filter), [jobs.data, filter]);
  const { running, tasks, finished, cancelled, failed } = totals(all);
  return html`<div class="stack">
    <h1>Jobs</h1>
    ${jobs.error && html`<${ErrorNotice} error=${jobs.error} />`}
    <${Health} jobs=${all} />
    <${Stats}
      items=${[
        { name: "Running", value: count(running), unit: plural(tasks, "task") },
        { name: "Finished", value: count(finished) },
        { name: "Cancelled", value: count(cancelled) },
        { name: "Failed", value: count(failed) },
        overview.data && { name: "Slots", value: html`<${Slots} overview=${overview.data} />` },
        overview.data && { name: "Workers", value: count(overview.data.taskmanagers) },
      ]}
    />
    <${Card}
      title="All jobs"
      flush
      actions=${html`<${Segmented}
        label="Which jobs"
        options=${FILTERS}
        value=${filter}
        onChange=${setFilter}
      />`}
      footer=${
        overview.data?.["flink-version"] &&
        `Penstock ${overview.data.penstock?.version ?? overview.data["flink-version"]}`
      }
    >${
      !jobs.data
        ? html`<div class="body" style="padding:16px">${!jobs.error && html`<${Loading} />`}</div>`
        : shown.length
          ? html`<${JobTable} jobs=${shown} now=${Date.now()} />`
          : html`<${Empty}
            title=${all.length ? "No matching jobs" : "No jobs yet"}
          >${
            all.length
              ? "Choose another filter above."
              : html`
                Start one with <code>penstock run job.py</code>, or send one
                with <a href="#/submit">Submit</a>.
              `
          }<//>`
    }<//>
  </div>`;
}
