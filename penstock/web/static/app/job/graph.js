// @ts-check
// The graph of a job: vertices coloured by what they spend their time with, and what flows between
// them.
import { html, useEffect, useLayoutEffect, useMemo, useRef, useState } from "../lib.js";
import { go } from "../router.js";
import { Card, Empty, LoadLegend } from "../ui.js";
import { EdgeLabel, Minimap, Node } from "./graph_parts.js";
import { merged, neighbour, place } from "./layout.js";
import { VertexPanel } from "./vertex.js";

/** @import { Job, TabProps, View } from "../../../types.d.ts" */
/** @typedef {{current: HTMLElement | null}} Area */

const READABLE = 0.72; // below this, names cannot be read: then the graph is scrolled instead
const SMALLEST = 0.25;
const LARGEST = 1.6;
const HIGHEST = 616; // the height that the graph may take

/**
 * Dragging moves the graph, as does scrolling.
 * @param {Area} element
 */
function useDragging(element) {
  useEffect(() => {
    const area = element.current;
    if (!area) return undefined;
    /** @type {{x: number, y: number} | null} */
    let start = null;
    const down = (/** @type {PointerEvent} */ event) => {
      if (
        event.pointerType !== "mouse" ||
        event.button !== 0 ||
        (event.target instanceof Element && event.target.closest("button, .minimap"))
      )
        return;
      start = { x: event.clientX + area.scrollLeft, y: event.clientY + area.scrollTop };
      area.classList.add("dragging");
    };
    const move = (/** @type {PointerEvent} */ event) => {
      if (!start) return;
      area.scrollLeft = start.x - event.clientX;
      area.scrollTop = start.y - event.clientY;
    };
    const up = () => {
      start = null;
      area.classList.remove("dragging");
    };
    area.addEventListener("pointerdown", down);
    addEventListener("pointermove", move);
    addEventListener("pointerup", up);
    return () => {
      area.removeEventListener("pointerdown", down);
      removeEventListener("pointermove", move);
      removeEventListener("pointerup", up);
    };
  }, []);
}

/**
 * @typedef {object} GraphProps
 * @property {Job} job
 * @property {number} now
 * @property {string} [selected] the id of a vertex
 * @property {(id: string) => void} onSelect
 */

/** @param {GraphProps} props */
export function JobGraph({ job, now, selected, onSelect }) {
  const edges = useMemo(() => merged(job.edges), [job]);
  const shape = JSON.stringify([
    job.vertices.map((vertex) => vertex.id),
    edges.map((edge) => [edge.source, edge.target]),
  ]);
  const layout = useMemo(() => place(job.vertices, edges), [shape]);
  const area = useRef(/** @type {HTMLElement | null} */ (null));
  // null: as large as fits, but readable
  const [zoom, setZoom] = useState(/** @type {number | null} */ (null));
  const [size, setSize] = useState({ width: 1000, height: 400 });
  const [view, setView] = useState(/** @type {View | null} */ (null));
  useDragging(area);
  const fitting = Math.min(1, size.width / layout.width, HIGHEST / layout.height);
  const scale = zoom ?? Math.max(fitting, Math.min(READABLE, 1));
  const look = () => {
    if (!area.current) return;
    const { scrollLeft, scrollTop, clientWidth, clientHeight } = area.current;
    setView({
      x: scrollLeft / scale,
      y: scrollTop / scale,
      width: Math.min(clientWidth / scale, layout.width),
      height: Math.min(clientHeight / scale, layout.height),
    });
  };
  useLayoutEffect(() => {
    const observer = new ResizeObserver(([entry]) =>
      setSize({ width: entry.contentRect.width, height: entry.contentRect.height }),
    );
    if (area.current) observer.observe(area.current);
    return () => observer.disconnect();
  }, []);
  useLayoutEffect(look, [scale, size, layout]);
  const jump = (/** @type {number} */ x, /** @type {number} */ y) =>
    area.current?.scrollTo({
      left: x * scale - size.width / 2,
      top: y * scale - size.height / 2,
      behavior: "smooth",
    });
  const onMove = (/** @type {KeyboardEvent} */ event, /** @type {string} */ id) => {
    const next = neighbour(event.key, id, layout, edges);
    if (!next) return;
    event.preventDefault();
    focusVertex(next);
  };
  const overflowing =
    layout.width * scale > size.width + 4 || layout.height * scale > size.height + 4;
  const step = (/** @type {number} */ factor) =>
    setZoom(Math.min(LARGEST, Math.max(SMALLEST, scale * factor)));
  /** @param {{source: string, target: string}} edge */
  const touched = ({ source, target }) => source === selected || target === selected;
  const tools = html`
    <${LoadLegend} />
    <div class="segmented" role="group" aria-label="Zoom">
      <button type="button" aria-label="Zoom out" onClick=${() => step(1 / 1.2)}>−</button>
      <button type="button" onClick=${() => setZoom(zoom === null ? fitting : null)}>
        ${zoom === null ? "Fit all" : "Reset"}
      </button>
      <button type="button" aria-label="Zoom in" onClick=${() => step(1.2)}>+</button>
    </div>
  `;
  return html`<${Card} title="Graph" flush actions=${tools}>
    <div class="graph">
      <div
        class="graph-scroll"
        ref=${area}
        onScroll=${look}
        role="group"
        aria-label="Graph of the job, from sources on the left to sinks on the right"
      >
        <div
          style=${{
            width: `${layout.width * scale}px`,
            height: `${layout.height * scale}px`,
            margin: "0 auto",
          }}
        >
          <div
            class="graph-canvas"
            style=${{
              width: `${layout.width}px`,
              height: `${layout.height}px`,
              transform: `scale(${scale})`,
            }}
          >
            <svg width=${layout.width} height=${layout.height} aria-hidden="true">
              <defs>
                <marker
                  id="arrow"
                  viewBox="0 0 8 8"
                  refX="7"
                  refY="4"
                  markerWidth="7"
                  markerHeight="7"
                  orient="auto"
                >
                  <path class="arrow" d="M0 0 8 4 0 8z" />
                </marker>
              </defs>
              ${layout.edges.map(
                (at, n) => html`<path
                  key=${at.key}
                  d=${at.path}
                  marker-end="url(#arrow)"
                  class=${[
                    "edge",
                    (edges[n].recordsPerSecond ?? 0) > 0 && "flowing",
                    touched(at) && "selected",
                  ]
                    .filter(Boolean)
                    .join(" ")}
                />`,
              )}
            </svg>
            ${layout.edges.map(
              (at, n) => html`<${EdgeLabel} key=${at.key} edge=${edges[n]} at=${at} now=${now} />`,
            )}
            ${job.vertices.map(
              (vertex) => html`<${Node}
                key=${vertex.id}
                vertex=${vertex}
                at=${layout.nodes.get(vertex.id)}
                selected=${vertex.id === selected}
                onSelect=${onSelect}
                onMove=${onMove}
              />`,
            )}
          </div>
        </div>
      </div>
      ${
        overflowing &&
        job.vertices.length > 6 &&
        html`<${Minimap} layout=${layout} vertices=${job.vertices} view=${view} jump=${jump} />`
      }
    </div>
  <//>`;
}

/** @param {string} id */
function focusVertex(id) {
  const node = document.querySelector(`[data-vertex="${CSS.escape(id)}"]`);
  if (node instanceof HTMLElement) node.focus();
}

/** @param {TabProps} props */
export function GraphTab({ id, job, now, query, tab }) {
  const selected = job.vertices.find((vertex) => vertex.id === query.vertex);
  const select = (/** @type {string | undefined} */ vertex) =>
    go(["jobs", id, tab], { vertex: vertex === query.vertex ? undefined : vertex });
  const close = () => {
    select(undefined);
    focusVertex(query.vertex);
  };
  return html`<div class=${`graph-area ${selected ? "with-panel" : ""}`}>
    ${
      job.vertices.length
        ? html`<${JobGraph} job=${job} now=${now} selected=${selected?.id} onSelect=${select} />`
        : html`<${Card}><${Empty} title="This job has no vertices" /><//>`
    }
    ${
      selected &&
      html`<${VertexPanel}
        key=${selected.id}
        id=${id}
        vertex=${selected}
        now=${now}
        close=${close}
      />`
    }
  </div>`;
}
