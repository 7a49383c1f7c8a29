// The graph of a job: vertices coloured by what they spend their time with, and what flows between them.
import { html, useEffect, useLayoutEffect, useMemo, useRef, useState } from "../lib.js";
import { go } from "../router.js";
import { Card, Empty, LoadBar, LoadLegend } from "../ui.js";
import { bytes, eventTime, known, plural, rate, share, watermark, words } from "../format.js";
import { NODE, merged, place } from "./layout.js";
import { VertexPanel } from "./vertex.js";

const READABLE = 0.72; // below this, names cannot be read: then the graph is scrolled instead
const SMALLEST = 0.25;

// Busy is warm, back-pressured is violet, as in the bars; the stronger of the two gives the colour.
function heat(vertex) {
  if (!known(vertex.busy)) return {};
  const pressed = vertex.backPressured > vertex.busy;
  const amount = Math.max(vertex.busy, vertex.backPressured);
  return { "--heat": pressed ? "var(--pressed)" : "var(--busy)", "--heat-share": `${Math.round(amount * 34)}%`, "--heat-edge": `${Math.round(Math.min(1, amount * 1.25) * 100)}%` };
}

function describe(vertex) {
  const load = known(vertex.busy) ? `, busy ${share(vertex.busy)}, back-pressured ${share(vertex.backPressured)}` : "";
  return `${vertex.name}, parallelism ${vertex.parallelism}, ${vertex.status.toLowerCase()}${load}`;
}

function Node({ vertex, at, selected, onSelect, onMove }) {
  return html`<button type="button" class="node" data-vertex=${vertex.id} aria-pressed=${selected} aria-label=${describe(vertex)} title=${vertex.name}
    style=${{ left: `${at.x - NODE.width / 2}px`, top: `${at.y - NODE.height / 2}px`, width: `${NODE.width}px`, height: `${NODE.height}px`, ...heat(vertex) }}
    onClick=${() => onSelect(vertex.id)} onKeyDown=${(event) => onMove(event, vertex.id)}>
    <span class="what"><strong>${vertex.name}</strong><span class="chip">× ${vertex.parallelism}</span></span>
    <span class="numbers quiet">${known(vertex.busy)
      ? html`<span>${vertex.source ? "" : `${rate(vertex.recordsInPerSecond)} in`}</span><span>${rate(vertex.recordsOutPerSecond)} out</span>`
      : html`<span>${plural(vertex.operators.length, "operator")}</span>`}</span>
    <${LoadBar} busy=${vertex.busy} pressed=${vertex.backPressured} idle=${vertex.idle} />
    <span class="numbers">${known(vertex.busy) && vertex.status === "RUNNING"
      ? html`<span>busy ${share(vertex.busy)}</span><span>${vertex.backPressured >= 0.005 ? `back-pressured ${share(vertex.backPressured)}` : ""}</span>`
      : html`<span>${words(vertex.status)}</span>`}</span>
  </button>`;
}

function EdgeLabel({ edge, at, now }) {
  const lag = watermark(edge.watermark, now);
  if (!known(edge.recordsPerSecond) && !lag) return null;
  const title = [[...edge.strategies].join(", "), known(edge.bytesPerSecond) && `${bytes(edge.bytesPerSecond)}/s`, lag && `watermark ${eventTime(edge.watermark)}`].filter(Boolean).join(" · ");
  return html`<div class="edge-label" data-edge=${at.key} title=${title} style=${{ left: `${at.x}px`, top: `${at.y}px` }}>
    ${rate(edge.recordsPerSecond)}${lag && html`<span>${lag}</span>`}</div>`;
}

function Minimap({ layout, vertices, view, jump }) {
  const pick = (event) => {
    const box = event.currentTarget.getBoundingClientRect();
    jump(((event.clientX - box.left) / box.width) * layout.width, ((event.clientY - box.top) / box.height) * layout.height);
  };
  return html`<div class="minimap" aria-hidden="true"><svg viewBox=${`0 0 ${layout.width} ${layout.height}`} onClick=${pick}>
    ${vertices.map((vertex) => {
      const at = layout.nodes.get(vertex.id);
      const colour = !known(vertex.busy) ? "var(--line-strong)" : `color-mix(in oklab, ${vertex.backPressured > vertex.busy ? "var(--pressed)" : "var(--busy)"} ${Math.round(Math.max(vertex.busy, vertex.backPressured) * 100)}%, var(--idle))`;
      return html`<rect key=${vertex.id} x=${at.x - NODE.width / 2} y=${at.y - NODE.height / 2} width=${NODE.width} height=${NODE.height} rx="14" style=${{ fill: colour }} />`;
    })}
    ${view && html`<rect class="here" x=${view.x} y=${view.y} width=${view.width} height=${view.height} rx="10" />`}
  </svg></div>`;
}

// Dragging moves the graph, as does scrolling.
function useDragging(element) {
  useEffect(() => {
    const area = element.current;
    let start = null;
    const down = (event) => {
      if (event.pointerType !== "mouse" || event.button !== 0 || event.target.closest("button, .minimap")) return;
      start = { x: event.clientX + area.scrollLeft, y: event.clientY + area.scrollTop };
      area.classList.add("dragging");
    };
    const move = (event) => {
      if (!start) return;
      area.scrollLeft = start.x - event.clientX;
      area.scrollTop = start.y - event.clientY;
    };
    const up = () => { start = null; area.classList.remove("dragging"); };
    area.addEventListener("pointerdown", down);
    addEventListener("pointermove", move);
    addEventListener("pointerup", up);
    return () => { area.removeEventListener("pointerdown", down); removeEventListener("pointermove", move); removeEventListener("pointerup", up); };
  }, []);
}

// The arrow keys go along edges, and up and down within a column.
function neighbour(key, id, layout, edges) {
  if (key === "ArrowRight") return edges.find((edge) => edge.source === id)?.target;
  if (key === "ArrowLeft") return edges.find((edge) => edge.target === id)?.source;
  if (key !== "ArrowUp" && key !== "ArrowDown") return undefined;
  const here = layout.nodes.get(id);
  const way = key === "ArrowUp" ? -1 : 1;
  const found = [...layout.nodes].filter(([, at]) => Math.abs(at.x - here.x) < NODE.width / 2 && (at.y - here.y) * way > 0);
  return found.sort(([, a], [, b]) => (a.y - b.y) * way)[0]?.[0];
}

export function JobGraph({ job, now, selected, onSelect }) {
  const edges = useMemo(() => merged(job.edges), [job]);
  const shape = JSON.stringify([job.vertices.map((vertex) => vertex.id), edges.map((edge) => [edge.source, edge.target])]);
  const layout = useMemo(() => place(job.vertices, edges), [shape]);
  const area = useRef();
  const [zoom, setZoom] = useState(null); // null: as large as fits, but readable
  const [size, setSize] = useState({ width: 1000, height: 400 });
  const [view, setView] = useState(null);
  useDragging(area);
  const fitting = Math.min(1, size.width / layout.width, 616 / layout.height);
  const scale = zoom ?? Math.max(fitting, Math.min(READABLE, 1));
  const look = () => {
    const { scrollLeft, scrollTop, clientWidth, clientHeight } = area.current;
    setView({ x: scrollLeft / scale, y: scrollTop / scale, width: Math.min(clientWidth / scale, layout.width), height: Math.min(clientHeight / scale, layout.height) });
  };
  useLayoutEffect(() => {
    const observer = new ResizeObserver(([entry]) => setSize({ width: entry.contentRect.width, height: entry.contentRect.height }));
    observer.observe(area.current);
    return () => observer.disconnect();
  }, []);
  useLayoutEffect(look, [scale, size, layout]);
  const jump = (x, y) => area.current.scrollTo({ left: x * scale - size.width / 2, top: y * scale - size.height / 2, behavior: "smooth" });
  const onMove = (event, id) => {
    const next = neighbour(event.key, id, layout, edges);
    if (!next) return;
    event.preventDefault();
    area.current.querySelector(`[data-vertex="${CSS.escape(next)}"]`)?.focus();
  };
  const overflowing = layout.width * scale > size.width + 4 || layout.height * scale > size.height + 4;
  const step = (factor) => setZoom(Math.min(1.6, Math.max(SMALLEST, scale * factor)));
  const tools = html`<${LoadLegend} /><div class="segmented" role="group" aria-label="Zoom">
    <button type="button" aria-label="Zoom out" onClick=${() => step(1 / 1.2)}>−</button>
    <button type="button" onClick=${() => setZoom(zoom === null ? fitting : null)}>${zoom === null ? "Fit all" : "Reset"}</button>
    <button type="button" aria-label="Zoom in" onClick=${() => step(1.2)}>+</button></div>`;
  return html`<${Card} title="Graph" flush actions=${tools}><div class="graph">
    <div class="graph-scroll" ref=${area} onScroll=${look} role="group" aria-label="Graph of the job, from sources on the left to sinks on the right">
      <div style=${{ width: `${layout.width * scale}px`, height: `${layout.height * scale}px`, margin: "0 auto" }}>
        <div class="graph-canvas" style=${{ width: `${layout.width}px`, height: `${layout.height}px`, transform: `scale(${scale})` }}>
          <svg width=${layout.width} height=${layout.height} aria-hidden="true">
            <defs><marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto"><path class="arrow" d="M0 0 8 4 0 8z" /></marker></defs>
            ${layout.edges.map((at, n) => html`<path key=${at.key} d=${at.path} marker-end="url(#arrow)"
              class=${`edge ${edges[n].recordsPerSecond > 0 ? "flowing" : ""} ${selected && (at.source === selected || at.target === selected) ? "selected" : ""}`} />`)}
          </svg>
          ${layout.edges.map((at, n) => html`<${EdgeLabel} key=${at.key} edge=${edges[n]} at=${at} now=${now} />`)}
          ${job.vertices.map((vertex) => html`<${Node} key=${vertex.id} vertex=${vertex} at=${layout.nodes.get(vertex.id)} selected=${vertex.id === selected} onSelect=${onSelect} onMove=${onMove} />`)}
        </div>
      </div>
    </div>
    ${overflowing && job.vertices.length > 6 && html`<${Minimap} layout=${layout} vertices=${job.vertices} view=${view} jump=${jump} />`}
  </div><//>`;
}

export function GraphTab({ id, job, now, query, tab }) {
  const selected = job.vertices.find((vertex) => vertex.id === query.vertex);
  const select = (vertex) => go(["jobs", id, tab], { vertex: vertex === query.vertex ? undefined : vertex });
  const close = () => {
    const node = document.querySelector(`[data-vertex="${CSS.escape(query.vertex)}"]`);
    select(undefined);
    node?.focus();
  };
  return html`<div class=${`graph-area ${selected ? "with-panel" : ""}`}>
    ${job.vertices.length ? html`<${JobGraph} job=${job} now=${now} selected=${selected?.id} onSelect=${select} />`
      : html`<${Card}><${Empty} title="This job has no vertices" /><//>`}
    ${selected && html`<${VertexPanel} key=${selected.id} id=${id} vertex=${selected} now=${now} close=${close} />`}
  </div>`;
}
