// @ts-check
// The flame graph of a vertex: which calls its subtasks are found in. Wide is often; what stands on
// a call was called by it.
import { asApiError, get, wasAborted } from "../api.js";
import { clock, plural, share } from "../format.js";
import { html, useEffect, useMemo, useState } from "../lib.js";
import { go } from "../router.js";
import { Card, Empty, ErrorNotice, Loading, Missing, Segmented } from "../ui.js";
import { around, colour, frames, shortName, within } from "./frames.js";
import { busiest } from "./load.js";

/** @import { Call, Changed, Choice, Flame as Answer } from "../../../types.d.ts" */
/** @import { TabProps, Timer } from "../../../types.d.ts" */
/** @import { Live } from "../live.js" */

const ROW = 20;
const WAITING = -3; // the time of an answer that comes before the first samples
/** @type {Choice[]} */
const KINDS = [
  ["full", "All"],
  ["on_cpu", "Running"],
  ["off_cpu", "Waiting"],
];

/** @param {{root: Call, search: string}} props */
function Flame({ root, search }) {
  const [focus, setFocus] = useState(/** @type {string | null} */ (null));
  const all = useMemo(() => frames(root), [root]);
  const chosen = all.find((each) => each.path === focus) ?? all[0];
  const inside = around(all, chosen);
  const depth = Math.max(...inside.map((each) => each.depth)) + 1;
  const wanted = search.trim().toLowerCase();
  return html`<div class="flame" style=${{ height: `${depth * ROW}px` }}>${inside.map((frame) => {
    const { node, left, width, depth: at, path } = frame;
    const above = !within(frame, chosen);
    const part = share(node.value / root.value);
    const text = `${node.name}, ${part} of ${plural(root.value, "sample")}`;
    return html`<button
      type="button"
      key=${path}
      class=${`frame ${wanted && !node.name.toLowerCase().includes(wanted) ? "dim" : ""}`}
      title=${text}
      aria-label=${text}
      onClick=${() => setFocus(path === focus ? null : path)}
      style=${{
        left: above ? "0" : `${((left - chosen.left) / chosen.width) * 100}%`,
        width: above ? "100%" : `${(width / chosen.width) * 100}%`,
        top: `${at * ROW}px`,
        background: at === 0 ? "#d8cfc4" : colour(node.name),
      }}
    >
      ${shortName(node.name)}
    </button>`;
  })}</div>`;
}

/** @param {TabProps} props */
export function FlameGraph({ id, job, query, tab }) {
  // The busiest when the tab was opened; if another one is later, what is looked at does not
  // change.
  const [hottest] = useState(() => busiest(job.vertices)?.id);
  const vertex =
    job.vertices.find((each) => each.id === (query.vertex ?? hottest)) ?? job.vertices[0];
  const [kind, setKind] = useState("full");
  const [subtask, setSubtask] = useState("");
  const [search, setSearch] = useState("");
  const [value, setValue] = useState(/** @type {Live<Answer>} */ ({}));
  const [round, setRound] = useState(0);
  const ended = job["end-time"] > 0;
  useEffect(() => {
    if (!vertex || ended) return undefined;
    const stop = new AbortController();
    /** @type {Timer} */
    let timer;
    const load = async () => {
      try {
        const only = subtask === "" ? "" : `&subtaskindex=${subtask}`;
        const data = await get(`/jobs/${id}/vertices/${vertex.id}/flamegraph?type=${kind}${only}`, {
          signal: stop.signal,
        });
        setValue({ data });
        timer = setTimeout(load, data.endTimestamp === WAITING ? 700 : 15_000);
      } catch (error) {
        if (!wasAborted(error)) setValue({ error: asApiError(error) });
      }
    };
    setValue({});
    load();
    return () => {
      stop.abort();
      clearTimeout(timer);
    };
  }, [vertex?.id, kind, subtask, round, ended]);
  const { data, error } = value;
  if (!vertex || ended)
    return html`<${Card}><${Empty} title="There is nothing to sample">The job has ended.<//><//>`;
  return html`<${Card}
    title="Flame graph"
    actions=${html`
      <select
        aria-label="Vertex"
        value=${vertex.id}
        onChange=${(/** @type {Changed} */ event) =>
          go(["jobs", id, tab], { vertex: event.target.value })}
      >${job.vertices.map(
        (each) => html`<option key=${each.id} value=${each.id}>${each.name}</option>`,
      )}</select>
      <select
        aria-label="Subtask"
        value=${subtask}
        onChange=${(/** @type {Changed} */ event) => setSubtask(event.target.value)}
      >
        <option value="">All subtasks</option>
        ${Array.from(
          { length: vertex.parallelism },
          (_, n) => html`<option key=${n} value=${n}>Subtask ${n}</option>`,
        )}
      </select>
      <${Segmented} label="Which samples" options=${KINDS} value=${kind} onChange=${setKind} />
      <input
        type="search"
        aria-label="Find a function"
        placeholder="Find a function"
        value=${search}
        onInput=${(/** @type {Changed} */ event) => setSearch(event.target.value)}
      />
      <button type="button" onClick=${() => setRound(round + 1)}>Sample again</button>
    `}
    footer=${
      data?.data
        ? `${plural(data.data.value, "sample")}, taken at ${clock(data.endTimestamp)}. ` +
          "Select a call to zoom in, select it again to zoom out."
        : undefined
    }
  >${
    error
      ? error.status === 404 || error.status === 501 || error.status === 409
        ? html`<${Missing} title="No samples" error=${error} />`
        : html`<${ErrorNotice} error=${error} />`
      : data?.data?.value
        ? html`<${Flame} key=${vertex.id} root=${data.data} search=${search} />`
        : data && data.endTimestamp !== WAITING
          ? html`<${Empty} title="No samples" picture="wait">${
              data.data
                ? "No matching samples were found."
                : "No subtask of this vertex can be sampled now: they do not run, " +
                  "or the job runs in epoch mode."
            }<//>`
          : html`<${Loading} lines=${8} label="Sampling" />`
  }<//>`;
}
