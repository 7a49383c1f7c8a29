// The flame graph of a vertex: which calls its subtasks are found in. Wide is often; what stands on a call was called by it.
import { html, useEffect, useMemo, useState } from "../lib.js";
import { get } from "../api.js";
import { go } from "../router.js";
import { Card, Empty, ErrorNotice, Loading, Segmented } from "../ui.js";
import { clock, plural, share } from "../format.js";

const ROW = 20;
const NARROWEST = 0.0015; // a share of the width below which a call is not drawn
const WAITING = -3; // the time of an answer that comes before the first samples
const KINDS = [["full", "All"], ["on_cpu", "Running"], ["off_cpu", "Waiting"]];

// The calls with their places, as far as they are wide enough to be seen.
export function frames(root) {
  const found = [];
  const visit = (node, left, depth, path) => {
    const width = node.value / root.value;
    if (width < NARROWEST) return;
    found.push({ node, left, width, depth, path });
    let next = left;
    for (const [n, child] of (node.children ?? []).entries()) {
      visit(child, next, depth + 1, `${path}.${n}`);
      next += child.value / root.value;
    }
  };
  if (root?.value) visit(root, 0, 0, "0");
  return found;
}

// The same call has the same colour every time.
function colour(name) {
  let hash = 0;
  for (const letter of name) hash = (hash * 31 + letter.charCodeAt(0)) | 0;
  return `hsl(${18 + (Math.abs(hash) % 34)} ${72 + (Math.abs(hash >> 6) % 20)}% ${64 + (Math.abs(hash >> 12) % 14)}%)`;
}

// Of `package.module.Class.function:12`, what is told apart at a glance.
function short(name) {
  const parts = name.split(".");
  return /^[A-Z]/.test(parts.at(-2) ?? "") ? parts.slice(-2).join(".") : parts.at(-1);
}

function Flame({ root, search }) {
  const [focus, setFocus] = useState(null);
  const all = useMemo(() => frames(root), [root]);
  const chosen = all.find((each) => each.path === focus) ?? all[0];
  const inside = all.filter((each) => each.path.startsWith(chosen.path) || chosen.path.startsWith(`${each.path}.`));
  const depth = Math.max(...inside.map((each) => each.depth)) + 1;
  const wanted = search.trim().toLowerCase();
  return html`<div class="flame" style=${{ height: `${depth * ROW}px` }}>
    ${inside.map(({ node, left, width, depth: at, path }) => {
      const above = !path.startsWith(chosen.path);
      const text = `${node.name}, ${share(node.value / root.value)} of ${plural(root.value, "sample")}`;
      return html`<button type="button" key=${path} class=${`frame ${wanted && !node.name.toLowerCase().includes(wanted) ? "dim" : ""}`} title=${text} aria-label=${text}
        onClick=${() => setFocus(path === focus ? null : path)}
        style=${{ left: above ? "0" : `${((left - chosen.left) / chosen.width) * 100}%`, width: above ? "100%" : `${(width / chosen.width) * 100}%`, top: `${at * ROW}px`, background: at === 0 ? "#d8cfc4" : colour(node.name) }}>${short(node.name)}</button>`;
    })}</div>`;
}

export function FlameGraph({ id, job, query, tab }) {
  // The busiest when the tab was opened; if another one is later, what is looked at does not change.
  const [busiest] = useState(() => [...job.vertices].sort((a, b) => (b.busy ?? 0) - (a.busy ?? 0))[0]?.id);
  const vertex = job.vertices.find((each) => each.id === (query.vertex ?? busiest)) ?? job.vertices[0];
  const [kind, setKind] = useState("full");
  const [subtask, setSubtask] = useState("");
  const [search, setSearch] = useState("");
  const [value, setValue] = useState({});
  const [round, setRound] = useState(0);
  const ended = job["end-time"] > 0;
  useEffect(() => {
    if (!vertex || ended) return undefined;
    const stop = new AbortController();
    let timer;
    const load = async () => {
      try {
        const data = await get(`/jobs/${id}/vertices/${vertex.id}/flamegraph?type=${kind}${subtask === "" ? "" : `&subtaskindex=${subtask}`}`, { signal: stop.signal });
        setValue({ data });
        timer = setTimeout(load, data.endTimestamp === WAITING ? 700 : 15_000);
      } catch (error) {
        if (error.name !== "AbortError") setValue({ error });
      }
    };
    setValue({});
    load();
    return () => { stop.abort(); clearTimeout(timer); };
  }, [vertex?.id, kind, subtask, round, ended]);
  const { data, error } = value;
  if (!vertex || ended) return html`<${Card}><${Empty} title="There is nothing to sample">The job has ended.<//><//>`;
  return html`<${Card} title="Flame graph" actions=${html`
      <select aria-label="Vertex" value=${vertex.id} onChange=${(event) => go(["jobs", id, tab], { vertex: event.target.value })}>${job.vertices.map((each) => html`<option key=${each.id} value=${each.id}>${each.name}</option>`)}</select>
      <select aria-label="Subtask" value=${subtask} onChange=${(event) => setSubtask(event.target.value)}><option value="">All subtasks</option>${Array.from({ length: vertex.parallelism }, (_, n) => html`<option key=${n} value=${n}>Subtask ${n}</option>`)}</select>
      <${Segmented} label="Which samples" options=${KINDS} value=${kind} onChange=${setKind} />
      <input type="search" aria-label="Find a function" placeholder="Find a function" value=${search} onInput=${(event) => setSearch(event.target.value)} />
      <button type="button" onClick=${() => setRound(round + 1)}>Sample again</button>`}
    footer=${data?.data ? `${plural(data.data.value, "sample")}, taken at ${clock(data.endTimestamp)}. Choose a call to look closer, again to look at all.` : undefined}>
    ${error ? error.status === 404 || error.status === 501 || error.status === 409 ? html`<${Empty} title="No samples">${[error.message, ...error.details].join(" · ")}<//>` : html`<${ErrorNotice} error=${error} />`
      : data?.data?.value ? html`<${Flame} key=${vertex.id} root=${data.data} search=${search} />`
      : data && data.endTimestamp !== WAITING ? html`<${Empty} title="No samples" picture="wait">${data.data ? "No subtask was found like that." : "No subtask of this vertex can be sampled now: they do not run, or the job runs in epochs."}<//>`
      : html`<${Loading} lines=${8} label="Sampling" />`}
  <//>`;
}
