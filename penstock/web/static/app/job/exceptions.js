// @ts-check
// Why the job failed, with the user's traceback, and what failed before.
import { moment } from "../format.js";
import { html, useState } from "../lib.js";
import { useLive } from "../live.js";
import { Card, Copy, Empty, Resource } from "../ui.js";
import { failures, headline, lastLine, whereabouts } from "./tracebacks.js";

/** @import { Exceptions as Answer, Failure, TabProps } from "../../../types.d.ts" */

/** @param {{entry: Failure, open: boolean, toggle: () => void}} props */
function Entry({ entry, open, toggle }) {
  return html`<${Card}
    title=${headline(entry)}
    actions=${html`
      <span class="muted small">${moment(entry.timestamp)}</span>
      <${Copy} text=${entry.stacktrace} />
      <button type="button" aria-expanded=${open} onClick=${toggle}>
        ${open ? "Hide" : "Show"}
      </button>
    `}
    footer=${whereabouts(entry) || undefined}
  >
    <pre class="text" tabindex="0" aria-label="Traceback">
      ${open ? entry.stacktrace : lastLine(entry.stacktrace)}
    </pre>
    ${(entry.concurrentExceptions ?? []).map(
      (other, n) =>
        open &&
        html`<pre
          key=${n}
          class="text"
          style="margin-top:10px"
          tabindex="0"
          aria-label="Failed at the same time"
        >
          ${other.stacktrace}
        </pre>`,
    )}
  <//>`;
}

/** @param {TabProps} props */
export function Exceptions({ id, job }) {
  const value = useLive(`/jobs/${id}/exceptions`);
  const [closed, setClosed] = useState(/** @type {Record<number, boolean>} */ ({}));
  // The newest one is open until the user closes it.
  const isOpen = (/** @type {number} */ n) => (closed[n] === undefined ? n === 0 : !closed[n]);
  return html`<${Resource} value=${value}>${(/** @type {Answer} */ data) => {
    const shown = failures(data);
    if (!shown.length) {
      return html`<${Card}>
        <${Empty} title="Nothing has failed" picture="good">${
          job.restarts
            ? "Earlier failures are no longer kept."
            : "When a task fails, its traceback is shown here."
        }<//>
      <//>`;
    }
    return html`<div class="stack">
      ${shown.map(
        (entry, n) => html`<${Entry}
          key=${`${entry.timestamp}-${n}`}
          entry=${entry}
          open=${isOpen(n)}
          toggle=${() => setClosed({ ...closed, [n]: isOpen(n) })}
        />`,
      )}
      ${
        data.exceptionHistory?.truncated &&
        html`<p class="muted small">Older ones are not kept.</p>`
      }
    </div>`;
  }}<//>`;
}
