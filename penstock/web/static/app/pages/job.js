// One job: what it is doing, what can be done with it, and its tabs.
import { html, useEffect, useRef } from "../lib.js";
import { useLive } from "../live.js";
import { href } from "../router.js";
import { Badge, ErrorNotice, Loading, Notice, Stats } from "../ui.js";
import { count, duration, known, rate, share } from "../format.js";
import { remember } from "../job/history.js";
import { Actions } from "../job/actions.js";
import { Findings } from "../job/findings.js";
import { GraphTab } from "../job/graph.js";
import { Timeline } from "../job/timeline.js";
import { Checkpoints } from "../job/checkpoints.js";
import { Exceptions } from "../job/exceptions.js";
import { Metrics } from "../job/metrics.js";
import { BackPressure } from "../job/back_pressure.js";
import { FlameGraph } from "../job/flame.js";
import { StateBrowser } from "../job/state.js";
import { Configuration } from "../job/configuration.js";
import { Plan } from "../job/plan.js";

const TABS = [
  ["graph", "Graph", GraphTab], ["timeline", "Timeline", Timeline], ["checkpoints", "Checkpoints", Checkpoints],
  ["exceptions", "Exceptions", Exceptions], ["metrics", "Metrics", Metrics], ["backpressure", "Back-pressure", BackPressure],
  ["flame", "Flame graph", FlameGraph], ["state", "State", StateBrowser], ["configuration", "Configuration", Configuration],
  ["plan", "Plan", Plan],
];

const STARTING = new Set(["CREATED", "INITIALIZING"]);

function Tabs({ id, current, query, failures }) {
  const list = useRef();
  useEffect(() => {
    list.current.querySelector("[aria-selected=true]")?.scrollIntoView({ block: "nearest", inline: "nearest" });
  }, [current]);
  const onKeyDown = (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1, Home: -Infinity, End: Infinity }[event.key];
    if (!step) return;
    event.preventDefault();
    const links = [...list.current.querySelectorAll("a")];
    const at = Math.min(Math.max(links.indexOf(document.activeElement) + step, 0), links.length - 1);
    links[at].focus();
  };
  return html`<div class="tabs" role="tablist" aria-label="About the job" ref=${list} onKeyDown=${onKeyDown}>
    ${TABS.map(([key, name]) => html`<a key=${key} role="tab" id=${`tab-${key}`} href=${href(["jobs", id, key], query.vertex ? { vertex: query.vertex } : {})}
      aria-selected=${key === current} aria-controls="tab-panel" tabindex=${key === current ? 0 : -1}
      onKeyDown=${(event) => { if (event.key === " ") { event.preventDefault(); event.currentTarget.click(); } }}>
      ${name}${key === "exceptions" && failures ? html`<span class="count">${failures}</span>` : ""}</a>`)}
  </div>`;
}

function figures(job, now) {
  const sources = job.vertices.filter((vertex) => vertex.source);
  const records = sources.map((vertex) => vertex.recordsOutPerSecond).filter(known);
  const busiest = job.vertices.filter((vertex) => known(vertex.busy)).sort((a, b) => b.busy - a.busy)[0];
  const checkpoint = job.checkpoint;
  return [
    { name: "Duration", value: duration(job["end-time"] > 0 ? job.duration : now - job["start-time"]) },
    { name: "Records from sources", value: records.length ? rate(records.reduce((a, b) => a + b, 0)) : "–" },
    { name: "Busiest", value: busiest ? share(busiest.busy) : "–", unit: busiest?.name, title: busiest?.name },
    {
      name: "Last checkpoint", value: checkpoint?.completed ? duration(checkpoint.duration) : "–",
      unit: checkpoint?.completed ? `${duration(Math.max(0, now - checkpoint.completed))} ago` : "none yet",
    },
    { name: "Restarts", value: count(job.restarts) },
    job.latency && { name: "Latency, p99", value: duration(job.latency.p99), unit: `p50 ${duration(job.latency.p50)}` },
  ];
}

export function JobPage({ id, tab, query }) {
  const value = useLive(`/penstock/jobs/${id}/graph`);
  const job = value.data;
  const [current, , Content] = TABS.find(([key]) => key === tab) ?? TABS[0];
  useEffect(() => { document.title = job ? `${job.name} · Penstock` : "Penstock"; }, [job?.name]);
  useEffect(() => { if (job) remember(id, job); }, [job]);
  if (!job) {
    return html`<div class="stack"><nav class="crumbs" aria-label="Breadcrumb"><a href="#/">Jobs</a> / ${id.slice(0, 8)}</nav>
      ${value.error ? html`<${ErrorNotice} error=${value.error} />` : html`<${Loading} lines=${8} />`}</div>`;
  }
  const now = Math.max(Date.now(), job.now);
  return html`<div class="stack">
    <div class="job-head">
      <div class="title">
        <nav class="crumbs" aria-label="Breadcrumb"><a href="#/">Jobs</a> / <span class="mono">${id}</span></nav>
        <div class="row"><h1>${job.name}</h1><${Badge} state=${job.state} /></div>
      </div>
      <${Actions} job=${job} />
    </div>
    <${Stats} items=${figures(job, now)} />
    ${STARTING.has(job.state) && html`<${Notice} tone="info"><strong>The job is being started.</strong> Spark brings up its workers, which takes some seconds.<//>`}
    <${Findings} id=${id} running=${job["end-time"] <= 0} />
    <${Tabs} id=${id} current=${current} query=${query} failures=${job.failures} />
    <section role="tabpanel" id="tab-panel" aria-labelledby=${`tab-${current}`} class="stack">
      <${Content} key=${current} id=${id} job=${job} now=${now} query=${query} tab=${current} />
    </section>
  </div>`;
}
