// @ts-check
// The JobManager and its workers: slots, memory, logs, thread dumps, options.
import { asApiError, getText, request, wasAborted } from "../api.js";
import { bytes, count, moment } from "../format.js";
import { html, useEffect, useState } from "../lib.js";
import { useLive } from "../live.js";
import { go } from "../router.js";
import {
  Card,
  Copy,
  Empty,
  ErrorNotice,
  Loading,
  Missing,
  Resource,
  Segmented,
  Stats,
} from "../ui.js";

/** @import { Answer, Choice, Option, Thread, Timer, Worker } from "../../../types.d.ts" */
/** @import { Live } from "../live.js" */

const LONGEST = 400_000; // as much of a log as a page can show
const SPARK_UI = "penstock.spark-ui"; // among the options: where Spark's own UI is

/** @type {Choice[]} */
const VIEWS = [
  ["log", "Log"],
  ["stdout", "Output"],
  ["thread-dump", "Threads"],
];

/** @param {{worker: Worker}} props */
function Slots({ worker }) {
  const total = worker.slotsNumber || 0;
  const used = total - (worker.freeSlots ?? 0);
  return html`<div class="row" style="flex-wrap:nowrap">
    <span class="bar" style="width:90px" role="img" aria-label=${`${used} of ${total} slots used`}>
      <i class="used" style=${{ width: `${total ? (used / total) * 100 : 0}%` }}></i>
    </span>
    <span class="nowrap">${used} / ${total}</span>
  </div>`;
}

/** @param {{workers: Worker[], selected?: string}} props */
function Workers({ workers, selected }) {
  return html`<div class="scroll" tabindex="0">
    <table>
      <thead>
        <tr>
          <th scope="col">Worker</th>
          <th scope="col">Slots used</th>
          <th scope="col" class="num">Cores</th>
          <th scope="col" class="num">Memory</th>
          <th scope="col">Last heartbeat</th>
        </tr>
      </thead>
      <tbody>${workers.map(
        (worker) => html`<tr
          key=${worker.id}
          class="click"
          aria-selected=${worker.id === selected}
          onClick=${() => go(["cluster", worker.id])}
        >
          <th scope="row">
            <button type="button" class="link" aria-expanded=${worker.id === selected}>
              ${worker.id}
            </button>
            <div class="muted small break">${worker.path}</div>
          </th>
          <td><${Slots} worker=${worker} /></td>
          <td class="num">${count(worker.hardware?.cpuCores)}</td>
          <td class="num">${bytes(worker.hardware?.physicalMemory)}</td>
          <td class="nowrap">${moment(worker.timeSinceLastHeartbeat)}</td>
        </tr>`,
      )}</tbody>
    </table>
  </div>`;
}

/**
 * @param {string} path
 * @param {AbortSignal} signal
 */
async function threads(path, signal) {
  const answer = await request("GET", path, { signal });
  const { threadInfos = [] } = /** @type {{threadInfos?: Thread[]}} */ (answer);
  return threadInfos
    .map((each) => (each.stringifiedThreadInfo ?? each.threadName).trimEnd())
    .join("\n\n");
}

/**
 * Text of the server that is read again every few seconds while it is shown.
 * @param {{path: string, json: boolean}} props
 */
function Text({ path, json }) {
  const [value, setValue] = useState(/** @type {Live<string>} */ ({}));
  useEffect(() => {
    const stop = new AbortController();
    /** @type {Timer} */
    let timer;
    const load = async () => {
      try {
        const { signal } = stop;
        const data = await (json ? threads(path, signal) : getText(path, { signal }));
        setValue({ data });
        timer = setTimeout(load, 4000);
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
  }, [path]);
  if (value.error)
    return value.error.status === 404 || value.error.status === 501
      ? html`<${Missing} title="Nothing to show" error=${value.error} />`
      : html`<${ErrorNotice} error=${value.error} />`;
  if (value.data === undefined) return html`<${Loading} lines=${6} />`;
  const text = value.data;
  if (!text.trim()) return html`<${Empty} title="Nothing was written yet" picture="wait" />`;
  return html`<pre class="text" tabindex="0" aria-label="Text">
    ${text.length > LONGEST ? `…\n${text.slice(-LONGEST)}` : text}
  </pre>`;
}

/**
 * @typedef {object} ReaderProps
 * @property {string} title
 * @property {string} base the path that the views are below
 * @property {string} view
 * @property {(view: string) => void} onView
 * @property {() => void} [close]
 */

/** @param {ReaderProps} props */
function Reader({ title, base, view, onView, close }) {
  return html`<${Card}
    title=${title}
    actions=${html`
      <${Segmented} label="What of it" options=${VIEWS} value=${view} onChange=${onView} />
      ${close && html`<button type="button" onClick=${close}>Close</button>`}
    `}
  >
    <${Text} key=${base + view} path=${`${base}/${view}`} json=${view === "thread-dump"} />
  <//>`;
}

function Options() {
  const value = useLive("/jobmanager/config");
  return html`<${Card}
    title="Options of the JobManager"
    flush
    actions=${
      value.data &&
      html`<${Copy} text=${value.data.map((each) => `${each.key}: ${each.value}`).join("\n")} />`
    }
  >
    <${Resource} value=${value} missing="The options are unknown">
      ${(/** @type {Option[]} */ data) =>
        !data.length
          ? html`<${Empty} title="All options have their defaults" />`
          : html`<div class="scroll" tabindex="0">
            <table>
              <thead><tr><th scope="col">Option</th><th scope="col">Value</th></tr></thead>
              <tbody>${data.map(
                (each) => html`<tr key=${each.key}>
                  <th scope="row" class="mono">${each.key}</th>
                  <td class="mono break">${
                    each.key === SPARK_UI
                      ? html`<a href=${each.value} target="_blank" rel="noopener">${each.value}</a>`
                      : each.value
                  }</td>
                </tr>`,
              )}</tbody>
            </table>
          </div>`}
    <//>
  <//>`;
}

/** @param {{selected?: string, view?: string}} props */
export function Cluster({ selected, view = "log" }) {
  const overview = useLive("/overview");
  const workers = useLive("/taskmanagers");
  const [own, setOwn] = useState("log");
  useEffect(() => {
    document.title = "Cluster · Penstock";
  }, []);
  const o = overview.data;
  return html`<div class="stack">
    <h1>Cluster</h1>
    ${
      o &&
      html`<${Stats}
        items=${[
          { name: "Workers", value: count(o.taskmanagers) },
          { name: "Slots", value: count(o["slots-total"]) },
          { name: "Free slots", value: count(o["slots-available"]) },
          { name: "Running jobs", value: count(o["jobs-running"]) },
          o["flink-version"] && {
            name: "Version",
            value: o.penstock?.version ?? o["flink-version"],
          },
        ]}
      />`
    }
    <${Card} title="Workers" flush>
      <${Resource} value=${workers} missing="The workers are unknown">
        ${(/** @type {Answer<"/taskmanagers">} */ data) =>
          data.taskmanagers.length
            ? html`<${Workers} workers=${data.taskmanagers} selected=${selected} />`
            : html`<${Empty} title="No worker yet">
              Workers are Spark's executors. They come with the first job.
            <//>`}
      <//>
    <//>
    ${
      selected &&
      html`<${Reader}
        key=${selected}
        title=${selected}
        base=${`/taskmanagers/${encodeURIComponent(selected)}`}
        view=${view}
        onView=${(/** @type {string} */ next) => go(["cluster", selected, next])}
        close=${() => go(["cluster"])}
      />`
    }
    <${Reader} title="JobManager" base="/jobmanager" view=${own} onView=${setOwn} />
    <${Options} />
  </div>`;
}
