// @ts-check
// One job: what it is doing, what can be done with it, and its tabs.
import { shortId } from "../format.js";
import { Actions } from "../job/actions.js";
import { BackPressure } from "../job/back_pressure.js";
import { Checkpoints } from "../job/checkpoints.js";
import { Configuration } from "../job/configuration.js";
import { Exceptions } from "../job/exceptions.js";
import { glance } from "../job/figures.js";
import { Findings } from "../job/findings.js";
import { FlameGraph } from "../job/flame.js";
import { GraphTab } from "../job/graph.js";
import { remember } from "../job/history.js";
import { Metrics } from "../job/metrics.js";
import { Plan } from "../job/plan.js";
import { StateBrowser } from "../job/state.js";
import { Timeline } from "../job/timeline.js";
import { html, useEffect, useRef } from "../lib.js";
import { useLive } from "../live.js";
import { href } from "../router.js";
import { Badge, ErrorNotice, Loading, Notice, Stats } from "../ui.js";

/** @import { Markup, TabProps } from "../../../types.d.ts" */

/** @type {[key: string, name: string, content: (props: TabProps) => Markup][]} */
const TABS = [
  ["graph", "Graph", GraphTab],
  ["timeline", "Timeline", Timeline],
  ["checkpoints", "Checkpoints", Checkpoints],
  ["exceptions", "Exceptions", Exceptions],
  ["metrics", "Metrics", Metrics],
  ["backpressure", "Back-pressure", BackPressure],
  ["flame", "Flame graph", FlameGraph],
  ["state", "State", StateBrowser],
  ["configuration", "Configuration", Configuration],
  ["plan", "Plan", Plan],
];

/** @type {Record<string, number>} */
const STEPS = {
  ArrowRight: 1,
  ArrowLeft: -1,
  Home: Number.NEGATIVE_INFINITY,
  End: Number.POSITIVE_INFINITY,
};

const STARTING = new Set(["CREATED", "INITIALIZING"]);

/** @param {{id: string, current: string, query: Record<string, string>, failures: number}} props */
function Tabs({ id, current, query, failures }) {
  const list = useRef(/** @type {HTMLElement | null} */ (null));
  useEffect(() => {
    list.current
      ?.querySelector("[aria-selected=true]")
      ?.scrollIntoView({ block: "nearest", inline: "nearest" });
  }, [current]);
  const onKeyDown = (/** @type {KeyboardEvent} */ event) => {
    const step = STEPS[event.key];
    if (!step || !list.current) return;
    event.preventDefault();
    const links = [...list.current.querySelectorAll("a")];
    const here = links.indexOf(/** @type {HTMLAnchorElement} */ (document.activeElement));
    const at = Math.min(Math.max(here + step, 0), links.length - 1);
    links[at].focus();
  };
  return html`<div
    class="tabs"
    role="tablist"
    aria-label="About the job"
    ref=${list}
    onKeyDown=${onKeyDown}
  >${TABS.map(
    ([key, name]) => html`<a
      key=${key}
      role="tab"
      id=${`tab-${key}`}
      href=${href(["jobs", id, key], query.vertex ? { vertex: query.vertex } : {})}
      aria-selected=${key === current}
      aria-controls="tab-panel"
      tabindex=${key === current ? 0 : -1}
      onKeyDown=${(/** @type {KeyboardEvent & {currentTarget: HTMLElement}} */ event) => {
        if (event.key === " ") {
          event.preventDefault();
          event.currentTarget.click();
        }
      }}
    >
      ${name}
      ${key === "exceptions" && failures ? html`<span class="count">${failures}</span>` : ""}
    </a>`,
  )}</div>`;
}

/** @param {{id: string, tab?: string, query: Record<string, string>}} props */
export function JobPage({ id, tab, query }) {
  const value = useLive(`/penstock/jobs/${id}/graph`);
  const job = value.data;
  const [current, , Content] = TABS.find(([key]) => key === tab) ?? TABS[0];
  useEffect(() => {
    document.title = job ? `${job.name} · Penstock` : "Penstock";
  }, [job?.name]);
  useEffect(() => {
    if (job) remember(id, job);
  }, [job]);
  if (!job) {
    return html`<div class="stack">
      <nav class="crumbs" aria-label="Breadcrumb"><a href="#/">Jobs</a> / ${shortId(id)}</nav>
      ${
        value.error
          ? html`<${ErrorNotice} error=${value.error} />`
          : html`<${Loading} lines=${8} />`
      }
    </div>`;
  }
  const now = Math.max(Date.now(), job.now);
  return html`<div class="stack">
    <div class="job-head">
      <div class="title">
        <nav class="crumbs" aria-label="Breadcrumb">
          <a href="#/">Jobs</a> / <span class="mono">${id}</span>
        </nav>
        <div class="row"><h1>${job.name}</h1><${Badge} state=${job.state} /></div>
      </div>
      <${Actions} job=${job} />
    </div>
    <${Stats} items=${glance(job, now)} />
    ${
      STARTING.has(job.state) &&
      html`<${Notice} tone="info">
        <strong>The job is being started.</strong> Spark brings up its workers, which takes some
        seconds.
      <//>`
    }
    <${Findings} id=${id} running=${job["end-time"] <= 0} />
    <${Tabs} id=${id} current=${current} query=${query} failures=${job.failures} />
    <section role="tabpanel" id="tab-panel" aria-labelledby=${`tab-${current}`} class="stack">
      <${Content} key=${current} id=${id} job=${job} now=${now} query=${query} tab=${current} />
    </section>
  </div>`;
}
