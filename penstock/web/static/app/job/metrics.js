// Live charts of the figures that every job has, and of any metric of a vertex.
import { html, useEffect, useMemo, useState } from "../lib.js";
import { useLive } from "../live.js";
import { go } from "../router.js";
import { Card, Empty, Resource } from "../ui.js";
import { bytes, count, duration, known, rate, share } from "../format.js";
import { samplesOf } from "./history.js";
import { Chart, seriesColour } from "./chart.js";

const FIGURES = [
  ["Records in", "recordsInPerSecond", rate], ["Records out", "recordsOutPerSecond", rate],
  ["Busy", "busy", share, 1], ["Back-pressured", "backPressured", share, 1],
  ["Bytes out", "bytesOutPerSecond", (value) => `${bytes(value)}/s`],
  ["Watermark lag", (vertex, time) => (known(vertex.watermark) && Math.abs(vertex.watermark) < 9e18 ? Math.max(0, time - vertex.watermark) : null), duration],
];
const SHOWN = 7;

function Figure({ name, times, series, format, most }) {
  const last = series.map((each) => each.values.at(-1)).filter(known);
  const total = last.length ? format(most ? Math.max(...last) : name.includes("lag") ? Math.max(...last) : last.reduce((a, b) => a + b, 0)) : "–";
  return html`<div class="card chart" data-chart=${name}><div class="row between"><h3>${name}</h3><span class="now">${total}</span></div>
    <${Chart} times=${times} series=${series} format=${format} most=${most} label=${`${name}, now ${total}`} binary=${name.startsWith("Bytes")} /></div>`;
}

function VertexChoice({ job, value, onChange, all }) {
  return html`<select aria-label="Vertex" value=${value ?? ""} onChange=${(event) => onChange(event.target.value || undefined)}>
    ${all && html`<option value="">All vertices</option>`}
    ${job.vertices.map((vertex) => html`<option key=${vertex.id} value=${vertex.id}>${vertex.name}</option>`)}</select>`;
}

// Any metric of a vertex, from when it was chosen.
function Chosen({ id, vertex, metric, remove }) {
  const [aggregate] = useState("sum");
  const { data } = useLive(`/jobs/${id}/vertices/${vertex}/subtasks/metrics?get=${encodeURIComponent(metric)}`);
  const [values, setValues] = useState([]);
  useEffect(() => {
    const found = data?.find((each) => each.id === metric);
    if (found) setValues((before) => [...before.slice(-900), { time: Date.now(), value: found[aggregate] ?? found.avg }]);
  }, [data]);
  return html`<div class="card chart" data-chart=${metric}><div class="row between"><h3 class="break">${metric}</h3><span class="row"><span class="now">${count(values.at(-1)?.value)}</span>
    <button type="button" class="plain icon" aria-label=${`Remove ${metric}`} onClick=${remove}>✕</button></span></div>
    <${Chart} times=${values.map((each) => each.time)} series=${[{ name: metric, values: values.map((each) => each.value) }]} format=${count} label=${metric} /></div>`;
}

function Others({ id, vertex }) {
  const list = useLive(`/jobs/${id}/vertices/${vertex.id}/subtasks/metrics`);
  const [chosen, setChosen] = useState([]);
  const [text, setText] = useState("");
  return html`<${Card} title=${`More metrics of ${vertex.name}`} actions=${html`<input type="search" aria-label="Find a metric" placeholder="Find a metric" value=${text} onInput=${(event) => setText(event.target.value)} />`}>
    <${Resource} value=${list}>${(data) => {
      const names = data.map((each) => each.id).filter((name) => name.toLowerCase().includes(text.toLowerCase()));
      if (!data.length) return html`<${Empty} title="No metric was reported yet" picture="wait" />`;
      return html`<div class="stack"><div class="row">${names.slice(0, 60).map((name) => html`<button key=${name} type="button" class="small" aria-pressed=${chosen.includes(name)}
          onClick=${() => setChosen(chosen.includes(name) ? chosen.filter((each) => each !== name) : [...chosen, name].slice(-6))}>${name}</button>`)}
          ${names.length > 60 && html`<span class="muted">and ${names.length - 60} more</span>`}</div>
        ${chosen.length ? html`<div class="charts">${chosen.map((name) => html`<${Chosen} key=${name} id=${id} vertex=${vertex.id} metric=${name} remove=${() => setChosen(chosen.filter((each) => each !== name))} />`)}</div>` : ""}</div>`;
    }}<//><//>`;
}

export function Metrics({ id, job, query, tab }) {
  const samples = samplesOf(id);
  const times = useMemo(() => samples.map((each) => each.time), [job]);
  const chosen = job.vertices.find((vertex) => vertex.id === query.vertex);
  const vertices = chosen ? [chosen] : job.vertices.slice(0, SHOWN);
  if (!job.vertices.some((vertex) => known(vertex.busy)) && !samples.some((each) => [...each.vertices.values()].some((vertex) => known(vertex.busy)))) {
    return html`<${Card}><${Empty} title="No figures yet" picture="wait">${job["end-time"] > 0 ? "The job has ended. Charts are of what happens while the page is open." : "Tasks report once a second while records flow, in a pipelined job."}<//><//>`;
  }
  const of = (each, vertex, field) => {
    const found = each.vertices.get(vertex.id);
    return !found ? null : typeof field === "function" ? field(found, each.time) : found[field];
  };
  return html`<div class="stack">
    <div class="row between"><${VertexChoice} job=${job} value=${chosen?.id} all onChange=${(vertex) => go(["jobs", id, tab], { vertex })} />
      <div class="legend">${vertices.map((vertex, n) => html`<span key=${vertex.id}><i style=${{ background: seriesColour(n) }}></i>${vertex.name}</span>`)}
        ${!chosen && job.vertices.length > SHOWN && html`<span>and ${job.vertices.length - SHOWN} more: choose one</span>`}</div></div>
    <div class="charts">${FIGURES.map(([name, field, format, most]) => html`<${Figure} key=${name} name=${name} times=${times} format=${format} most=${most}
      series=${vertices.map((vertex) => ({ name: vertex.name, values: samples.map((each) => of(each, vertex, field)) }))} />`)}</div>
    ${(chosen ?? job.vertices[0]) && html`<${Others} key=${(chosen ?? job.vertices[0]).id} id=${id} vertex=${chosen ?? job.vertices[0]} />`}
  </div>`;
}
