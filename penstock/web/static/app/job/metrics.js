// @ts-check
// Live charts of the figures that every job has, and of any metric of a vertex.
import { count, known } from "../format.js";
import { html, useEffect, useMemo, useState } from "../lib.js";
import { useLive } from "../live.js";
import { go } from "../router.js";
import { Card, Empty, Resource } from "../ui.js";
import { Chart, seriesColour } from "./chart.js";
import { CHARTS, newest, seriesOf } from "./figures.js";
import { samplesOf } from "./history.js";

/** @import { Changed, Job, MetricValue, Series, TabProps, Vertex } from "../../../types.d.ts" */
/** @import { ChartFigure } from "./figures.js" */

const SHOWN = 7;
const KEPT = 900;

/** @param {{figure: ChartFigure, times: number[], series: Series[]}} props */
function Figure({ figure, times, series }) {
  const { name, format, most } = figure;
  const total = newest(figure, series);
  return html`<div class="card chart" data-chart=${name}>
    <div class="row between"><h3>${name}</h3><span class="now">${total}</span></div>
    <${Chart}
      times=${times}
      series=${series}
      format=${format}
      most=${most}
      label=${`${name}, now ${total}`}
      binary=${name.startsWith("Bytes")}
    />
  </div>`;
}

/**
 * @typedef {object} ChoiceProps
 * @property {Job} job
 * @property {string} [value] the id of a vertex
 * @property {(id?: string) => void} onChange
 * @property {boolean} [all] whether all vertices can be chosen together
 */

/** @param {ChoiceProps} props */
function VertexChoice({ job, value, onChange, all }) {
  return html`<select
    aria-label="Vertex"
    value=${value ?? ""}
    onChange=${(/** @type {Changed} */ event) => onChange(event.target.value || undefined)}
  >
    ${all && html`<option value="">All vertices</option>`}
    ${job.vertices.map(
      (vertex) => html`<option key=${vertex.id} value=${vertex.id}>${vertex.name}</option>`,
    )}
  </select>`;
}

/**
 * Any metric of a vertex, from when it was chosen.
 * @param {{id: string, vertex: string, metric: string, remove: () => void}} props
 */
function Chosen({ id, vertex, metric, remove }) {
  const { data } = useLive(
    `/jobs/${id}/vertices/${vertex}/subtasks/metrics?get=${encodeURIComponent(metric)}`,
  );
  const [values, setValues] = useState(/** @type {{time: number, value?: number}[]} */ ([]));
  useEffect(() => {
    const found = data?.find((each) => each.id === metric);
    if (found)
      setValues((before) => [
        ...before.slice(-KEPT),
        { time: Date.now(), value: found.sum ?? found.avg },
      ]);
  }, [data]);
  return html`<div class="card chart" data-chart=${metric}>
    <div class="row between">
      <h3 class="break">${metric}</h3>
      <span class="row">
        <span class="now">${count(values.at(-1)?.value)}</span>
        <button type="button" class="plain icon" aria-label=${`Remove ${metric}`} onClick=${remove}>
          ✕
        </button>
      </span>
    </div>
    <${Chart}
      times=${values.map((each) => each.time)}
      series=${[{ name: metric, values: values.map((each) => each.value) }]}
      format=${count}
      label=${metric}
    />
  </div>`;
}

/** @param {{id: string, vertex: Vertex}} props */
function Others({ id, vertex }) {
  const list = useLive(`/jobs/${id}/vertices/${vertex.id}/subtasks/metrics`);
  const [chosen, setChosen] = useState(/** @type {string[]} */ ([]));
  const [text, setText] = useState("");
  return html`<${Card}
    title=${`More metrics of ${vertex.name}`}
    actions=${html`<input
      type="search"
      aria-label="Find a metric"
      placeholder="Find a metric"
      value=${text}
      onInput=${(/** @type {Changed} */ event) => setText(event.target.value)}
    />`}
  >
    <${Resource} value=${list}>${(/** @type {MetricValue[]} */ data) => {
      const names = data
        .map((each) => each.id)
        .filter((name) => name.toLowerCase().includes(text.toLowerCase()));
      if (!data.length) return html`<${Empty} title="No metric was reported yet" picture="wait" />`;
      return html`<div class="stack">
        <div class="row">
          ${names.slice(0, 60).map(
            (name) => html`<button
              key=${name}
              type="button"
              class="small"
              aria-pressed=${chosen.includes(name)}
              onClick=${() =>
                setChosen(
                  chosen.includes(name)
                    ? chosen.filter((each) => each !== name)
                    : [...chosen, name].slice(-6),
                )}
            >
              ${name}
            </button>`,
          )}
          ${names.length > 60 && html`<span class="muted">and ${names.length - 60} more</span>`}
        </div>
        ${
          chosen.length
            ? html`<div class="charts">${chosen.map(
                (name) => html`<${Chosen}
                  key=${name}
                  id=${id}
                  vertex=${vertex.id}
                  metric=${name}
                  remove=${() => setChosen(chosen.filter((each) => each !== name))}
                />`,
              )}</div>`
            : ""
        }
      </div>`;
    }}<//>
  <//>`;
}

/** @param {TabProps} props */
export function Metrics({ id, job, query, tab }) {
  const samples = samplesOf(id);
  const times = useMemo(() => samples.map((each) => each.time), [job]);
  const chosen = job.vertices.find((vertex) => vertex.id === query.vertex);
  const vertices = chosen ? [chosen] : job.vertices.slice(0, SHOWN);
  if (
    !job.vertices.some((vertex) => known(vertex.busy)) &&
    !samples.some((each) => [...each.vertices.values()].some((vertex) => known(vertex.busy)))
  ) {
    return html`<${Card}>
      <${Empty} title="No metrics yet" picture="wait">${
        job["end-time"] > 0
          ? "The job has ended. Charts show metrics while the page is open."
          : "In pipelined mode tasks report once a second."
      }<//>
    <//>`;
  }
  return html`<div class="stack">
    <div class="row between">
      <${VertexChoice}
        job=${job}
        value=${chosen?.id}
        all
        onChange=${(/** @type {string | undefined} */ vertex) => go(["jobs", id, tab], { vertex })}
      />
      <div class="legend">
        ${vertices.map(
          (vertex, n) => html`<span key=${vertex.id}>
            <i style=${{ background: seriesColour(n) }}></i>
            ${vertex.name}
          </span>`,
        )}
        ${
          !chosen &&
          job.vertices.length > SHOWN &&
          html`<span>and ${job.vertices.length - SHOWN} more: choose one</span>`
        }
      </div>
    </div>
    <div class="charts">${CHARTS.map(
      (figure) => html`<${Figure}
        key=${figure.name}
        figure=${figure}
        times=${times}
        series=${seriesOf(figure, vertices, samples)}
      />`,
    )}</div>
    ${
      (chosen ?? job.vertices[0]) &&
      html`<${Others}
        key=${(chosen ?? job.vertices[0]).id}
        id=${id}
        vertex=${chosen ?? job.vertices[0]}
      />`
    }
  </div>`;
}
