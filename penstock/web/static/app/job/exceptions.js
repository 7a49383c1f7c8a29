// Why the job failed, with the user's traceback, and what failed before.
import { html, useState } from "../lib.js";
import { useLive } from "../live.js";
import { Card, Copy, Empty, Resource } from "../ui.js";
import { moment } from "../format.js";

function Entry({ entry, open, toggle }) {
  return html`<${Card} title=${headline(entry)} actions=${html`<span class="muted small">${moment(entry.timestamp)}</span>
      <${Copy} text=${entry.stacktrace} /><button type="button" aria-expanded=${open} onClick=${toggle}>${open ? "Hide" : "Show"}</button>`}
    footer=${[entry.exceptionName, entry.taskName, entry.endpoint ?? entry.location].filter((each) => each && each !== "(unassigned)").join(" · ") || undefined}>
    <pre class="text" tabindex="0" aria-label="Traceback">${open ? entry.stacktrace : lastLine(entry.stacktrace)}</pre>
    ${(entry.concurrentExceptions ?? []).map((other, n) => open && html`<pre key=${n} class="text" style="margin-top:10px" tabindex="0" aria-label="Failed at the same time">${other.stacktrace}</pre>`)}
  <//>`;
}

// What was raised first: of an error in user code that is the user's, not ours that tells of it.
function headline(entry) {
  const raised = (entry.stacktrace ?? "").split("\n").find((line) => /^[A-Za-z_][\w.]*(: |$)/.test(line) && !line.startsWith("Traceback"));
  return raised && raised.length < 300 ? raised : entry.exceptionName ?? "Exception";
}

function lastLine(text) {
  return (text ?? "").trim().split("\n").at(-1);
}

export function Exceptions({ id, job }) {
  const value = useLive(`/jobs/${id}/exceptions`);
  const [closed, setClosed] = useState({});
  return html`<${Resource} value=${value}>${(data) => {
    const entries = data.exceptionHistory?.entries ?? [];
    const root = data["root-exception"];
    const shown = entries.length ? entries : root ? [{ exceptionName: lastLine(root).split(":")[0], stacktrace: root, timestamp: data.timestamp }] : [];
    if (!shown.length) {
      return html`<${Card}><${Empty} title="Nothing has failed" picture="good">${job.restarts ? "What failed earlier is no longer kept." : "When a task fails, its traceback is shown here."}<//><//>`;
    }
    return html`<div class="stack">${shown.map((entry, n) => html`<${Entry} key=${`${entry.timestamp}-${n}`} entry=${entry}
      open=${closed[n] === undefined ? n === 0 : !closed[n]} toggle=${() => setClosed({ ...closed, [n]: closed[n] === undefined ? n === 0 : !closed[n] })} />`)}
      ${data.exceptionHistory?.truncated && html`<p class="muted small">Older ones are not kept.</p>`}</div>`;
  }}<//>`;
}
