// @ts-check
// Sends a program to the session, and starts programs that were sent.
import { asApiError, get, request } from "../api.js";
import { Dialog, fieldOf, isChecked } from "../dialog.js";
import { moment } from "../format.js";
import { shellWords } from "../jobs.js";
import { html, useEffect, useRef, useState } from "../lib.js";
import { go } from "../router.js";
import { toast } from "../toasts.js";
import { Card, Empty, ErrorNotice, Loading } from "../ui.js";

/** @import { Answer, Changed, Close, Program } from "../../../types.d.ts" */
/** @import { ApiError } from "../api.js" */

/** @param {{program: Program, close: Close}} props */
function RunDialog({ program, close }) {
  const submit = async (/** @type {HTMLFormElement} */ form) => {
    const parallelism = fieldOf(form, "parallelism");
    const savepoint = fieldOf(form, "savepoint");
    const body = {
      programArgsList: shellWords(fieldOf(form, "arguments")),
      ...(parallelism ? { parallelism: Number(parallelism) } : {}),
      ...(savepoint ? { savepointPath: savepoint } : {}),
      ...(isChecked(form, "lenient") ? { allowNonRestoredState: true } : {}),
    };
    const answer = await request("POST", `/jars/${encodeURIComponent(program.id)}/run`, {
      body,
    });
    toast(`${program.name} was started`);
    go(["jobs", /** @type {{jobid: string}} */ (answer).jobid]);
  };
  return html`<${Dialog}
    title=${`Run ${program.name}`}
    confirm="Run"
    submit=${submit}
    close=${close}
  >
    <label class="field">
      Arguments<input name="arguments" placeholder="--rate 5000" autocomplete="off" />
    </label>
    <label class="field">
      Parallelism<input name="parallelism" type="number" min="1" placeholder="the default" />
    </label>
    <label class="field">
      Start from
      <input name="savepoint" placeholder="path of a savepoint or checkpoint" autocomplete="off" />
    </label>
    <label class="check">
      <input type="checkbox" name="lenient" />
      <span>Allow non-restored state</span>
    </label>
  <//>`;
}

/** @param {{program: Program, close: Close, done: () => void}} props */
function DeleteDialog({ program, close, done }) {
  const submit = async () => {
    await request("DELETE", `/jars/${encodeURIComponent(program.id)}`);
    toast(`${program.name} was deleted`, "info");
    done();
  };
  return html`<${Dialog}
    title=${`Delete ${program.name}?`}
    confirm="Delete"
    tone="danger"
    submit=${submit}
    close=${close}
  >
    <p>Running jobs are not affected.</p>
  <//>`;
}

/** @param {{done: () => void}} props */
function Upload({ done }) {
  const input = useRef(/** @type {HTMLInputElement | null} */ (null));
  const [file, setFile] = useState(/** @type {File | null} */ (null));
  const [working, setWorking] = useState(false);
  const [error, setError] = useState(/** @type {ApiError | null} */ (null));
  const send = async (/** @type {Event} */ event) => {
    event.preventDefault();
    if (!file) return;
    const form = new FormData();
    form.append("jarfile", file, file.name);
    setWorking(true);
    setError(null);
    try {
      await request("POST", "/jars/upload", { form });
      toast(`${file.name} was uploaded`);
      setFile(null);
      if (input.current) input.current.value = "";
      done();
    } catch (caught) {
      setError(asApiError(caught));
    } finally {
      setWorking(false);
    }
  };
  return html`<${Card} title="Upload a program">
    <form class="stack" onSubmit=${send}>
      <label class="field">
        Python file
        <input
          ref=${input}
          type="file"
          name="program"
          accept=".py"
          onChange=${(/** @type {Changed} */ event) => setFile(event.target.files?.[0] ?? null)}
        />
        <span class="hint">
          A <code>.py</code> file that calls <code>env.execute()</code>. It runs with the rights of
          the JobManager.
        </span>
      </label>
      ${error && html`<${ErrorNotice} error=${error} />`}
      <div>
        <button type="submit" class="primary" disabled=${!file || working}>
          ${working ? "Uploading…" : "Upload"}
        </button>
      </div>
    </form>
  <//>`;
}

/** @typedef {{data?: Answer<"/jars">, takes?: boolean, error?: ApiError}} Programs */
/** @typedef {{program: Program, remove?: boolean}} Open */

export function Submit() {
  const [value, setValue] = useState(/** @type {Programs} */ ({}));
  const [open, setOpen] = useState(/** @type {Open | null} */ (null));
  const load = () =>
    Promise.all([get("/config"), get("/jars")]).then(
      ([config, data]) => setValue({ data, takes: config.features["web-submit"] }),
      (error) => setValue({ error: asApiError(error) }),
    );
  useEffect(() => {
    document.title = "Submit · Penstock";
    load();
  }, []);
  const close = () => setOpen(null);
  const files = value.data?.files ?? [];
  if ((value.data && !value.takes) || value.error?.status === 404) {
    return html`<div class="stack">
      <h1>Submit</h1>
      <${Card}>
        <${Empty} title="Programs cannot be submitted here">
          This process runs one program, the one that it was started with, or a session
          with <code>web.submit.enable: false</code>. Start a session
          with <code>penstock session start</code>: its page takes programs, and so
          does <code>penstock run --session job.py</code>.
        <//>
      <//>
    </div>`;
  }
  return html`<div class="stack">
    <h1>Submit</h1>
    ${value.takes && html`<${Upload} done=${load} />`}
    <${Card} title="Programs" flush>${
      value.error
        ? html`<div style="padding:16px"><${ErrorNotice} error=${value.error} /></div>`
        : !value.data
          ? html`<div style="padding:16px"><${Loading} /></div>`
          : !files.length
            ? html`<${Empty} title="No program was uploaded">
              Upload one above, or send one from a terminal
              with <code>penstock run --session job.py</code>.
            <//>`
            : html`<div class="scroll" tabindex="0">
              <table>
                <thead>
                  <tr>
                    <th scope="col">Program</th>
                    <th scope="col">Uploaded</th>
                    <th scope="col"><span class="visually-hidden">What to do</span></th>
                  </tr>
                </thead>
                <tbody>${files.map(
                  (program) => html`<tr key=${program.id}>
                    <th scope="row"><strong>${program.name}</strong></th>
                    <td class="nowrap">${moment(program.uploaded)}</td>
                    <td>
                      <div class="row" style="justify-content:flex-end">
                        <button type="button" onClick=${() => setOpen({ program })}>Run</button>
                        <button
                          type="button"
                          class="danger"
                          onClick=${() => setOpen({ program, remove: true })}
                        >
                          Delete
                        </button>
                      </div>
                    </td>
                  </tr>`,
                )}</tbody>
              </table>
            </div>`
    }<//>
    ${
      open &&
      (open.remove
        ? html`<${DeleteDialog} program=${open.program} close=${close} done=${load} />`
        : html`<${RunDialog} program=${open.program} close=${close} />`)
    }
  </div>`;
}
