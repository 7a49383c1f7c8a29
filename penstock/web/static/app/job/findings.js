// @ts-check
// What the doctor says about a running job. Looking closely has a price, so it is asked only now
// and then.
import { asApiError, get, wasAborted } from "../api.js";
import { html, useEffect, useState } from "../lib.js";
import { href } from "../router.js";
import { Notice } from "../ui.js";

/** @import { Finding, Timer } from "../../../types.d.ts" */

const EVERY_MS = 20_000;
/** @type {Record<string, string>} */
const TONES = { critical: "bad", warning: "warn", info: "info" };

/** @param {{id: string, running: boolean}} props */
export function Findings({ id, running }) {
  const [findings, setFindings] = useState(/** @type {Finding[]} */ ([]));
  const [all, setAll] = useState(false);
  useEffect(() => {
    if (!running) {
      setFindings([]);
      return undefined;
    }
    const stop = new AbortController();
    /** @type {Timer} */
    let timer;
    const load = async () => {
      try {
        const options = { signal: stop.signal, mayAsk: false };
        const answer = await get(`/penstock/jobs/${id}/diagnosis`, options);
        setFindings(answer.findings ?? []);
      } catch (error) {
        // The page was left, or the server has no diagnoses.
        if (wasAborted(error) || asApiError(error).status === 404) return;
      }
      timer = setTimeout(load, EVERY_MS);
    };
    load();
    return () => {
      stop.abort();
      clearTimeout(timer);
    };
  }, [id, running]);
  if (!findings.length) return null;
  // Findings of severity info take one line, unless they are expanded.
  const serious = findings.filter((finding) => finding.severity !== "info").length;
  const few = Math.min(Math.max(serious, 1), 2);
  const shown = all ? findings : findings.slice(0, few);
  return html`<section class="findings" aria-label="Diagnosis">
    ${shown.map(
      (finding, n) => html`<${Notice}
        key=${`${finding.rule}-${n}`}
        tone=${TONES[finding.severity] ?? "info"}
      >
        <details open=${finding.severity !== "info"}>
          <summary>${finding.title}</summary>
          ${finding.detail && html`<div>${finding.detail}</div>`}
          ${finding.hint && html`<div class="small">${finding.hint}</div>`}
          ${
            finding.vertex &&
            html`<a class="small" href=${href(["jobs", id, "graph"], { vertex: finding.vertex })}>
              Show the vertex
            </a>`
          }
        </details>
      <//>`,
    )}
    ${
      findings.length > few &&
      html`<div>
        <button type="button" class="plain" aria-expanded=${all} onClick=${() => setAll(!all)}>
          ${all ? "Show less" : `${findings.length - few} more`}
        </button>
      </div>`
    }
  </section>`;
}
