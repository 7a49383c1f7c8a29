// @ts-check
// What can be done with a running job. Everything that changes it is confirmed first.
import { get, operate, request } from "../api.js";
import { Dialog, fieldOf, isChecked } from "../dialog.js";
import { plural } from "../format.js";
import { Fragment, html, useEffect, useState } from "../lib.js";
import { toast } from "../toasts.js";
import { Notice } from "../ui.js";

/** @import { Changed, Close, Job } from "../../../types.d.ts" */

function Directory() {
  return html`<label class="field">
    Directory
    <input name="directory" placeholder="the one that is configured" autocomplete="off" />
    <span class="hint">Leave it empty for <code>execution.checkpointing.savepoint-dir</code>.</span>
  </label>`;
}

const directory = (/** @type {HTMLFormElement} */ form) => fieldOf(form, "directory") || undefined;

/** @param {{job: Job, close: Close}} props */
export function SavepointDialog({ job, close }) {
  const submit = async (/** @type {HTMLFormElement} */ form) => {
    const done = await operate(`/jobs/${job.jid}/savepoints`, {
      "target-directory": directory(form),
      "cancel-job": false,
    });
    toast("Savepoint taken", "ok", done?.location);
  };
  return html`<${Dialog}
    title="Take a savepoint"
    confirm="Take savepoint"
    submit=${submit}
    close=${close}
  >
    <p>The job continues while the savepoint is written.</p>
    <${Directory} />
  <//>`;
}

/** @param {{job: Job, close: Close}} props */
function StopDialog({ job, close }) {
  const submit = async (/** @type {HTMLFormElement} */ form) => {
    const done = await operate(`/jobs/${job.jid}/stop`, {
      targetDirectory: directory(form),
      drain: isChecked(form, "drain"),
    });
    toast("The job has stopped with a savepoint", "ok", done?.location);
  };
  return html`<${Dialog}
    title=${`Stop ${job.name}?`}
    confirm="Stop the job"
    tone="danger"
    submit=${submit}
    close=${close}
  >
    <p>
      The job takes a savepoint and ends. What starts from the savepoint repeats nothing and misses
      nothing.
    </p>
    <${Directory} />
    <label class="check">
      <input type="checkbox" name="drain" />
      <span>
        Drain: event time goes to its end, so that all windows and timers
        fire. <span class="muted">Only if the job will not be resumed.</span>
      </span>
    </label>
  <//>`;
}

/** @param {{job: Job, close: Close}} props */
function CancelDialog({ job, close }) {
  const submit = async () => {
    await request("PATCH", `/jobs/${job.jid}?mode=cancel`);
    toast(`${job.name} is being cancelled`, "info");
  };
  return html`<${Dialog}
    title=${`Cancel ${job.name}?`}
    confirm="Cancel the job"
    tone="danger"
    submit=${submit}
    close=${close}
  >
    <p>
      The job ends at once, without a savepoint. What it did since its last checkpoint is done again
      if it is started from there.
    </p>
  <//>`;
}

/** @param {{job: Job, close: Close}} props */
function RescaleDialog({ job, close }) {
  const [chosen, setChosen] = useState("all");
  const [number, setNumber] = useState(
    String(Math.max(...job.vertices.map((vertex) => vertex.parallelism))),
  );
  const vertex = job.vertices.find((each) => each.id === chosen);
  const most =
    vertex?.maxParallelism ?? Math.min(...job.vertices.map((each) => each.maxParallelism));
  const submit = async () => {
    const parallelism = Number(number);
    await operate(
      `/jobs/${job.jid}/rescale`,
      vertex ? { vertices: { [vertex.id]: parallelism } } : { parallelism },
    );
    toast(`${vertex ? vertex.name : job.name} runs with a parallelism of ${parallelism}`);
  };
  const valid = /^\d+$/.test(number) && Number(number) >= 1 && Number(number) <= most;
  return html`<${Dialog}
    title=${`Rescale ${job.name}`}
    confirm="Rescale"
    submit=${submit}
    close=${close}
    ready=${valid}
  >
    <p>
      State is redistributed among the subtasks at the next checkpoint, and the job continues from
      there.
    </p>
    <label class="field">
      What
      <select
        value=${chosen}
        onChange=${(/** @type {Changed} */ event) => {
          setChosen(event.target.value);
          const found = job.vertices.find((each) => each.id === event.target.value);
          if (found) setNumber(String(found.parallelism));
        }}
      >
        <option value="all">All vertices</option>
        ${job.vertices.map(
          (each) => html`<option key=${each.id} value=${each.id}>
            ${each.name} (now ${each.parallelism})
          </option>`,
        )}
      </select>
    </label>
    <label class="field">
      Parallelism<input
        name="parallelism"
        type="number"
        min="1"
        max=${most}
        value=${number}
        onInput=${(/** @type {Changed} */ event) => setNumber(event.target.value)}
      />
      <span class="hint">At most ${most}, the maximum parallelism.</span>
    </label>
    ${
      !valid &&
      html`<${Notice} tone="warn">The parallelism must be a whole number from 1 to ${most}.<//>`
    }
  <//>`;
}

const DIALOGS = {
  savepoint: SavepointDialog,
  rescale: RescaleDialog,
  stop: StopDialog,
  cancel: CancelDialog,
};

/** @typedef {{"web-cancel"?: boolean, "web-rescale"?: boolean}} Features */

/** @param {{job: Job}} props */
export function Actions({ job }) {
  const [open, setOpen] = useState(/** @type {keyof typeof DIALOGS | null} */ (null));
  const [features, setFeatures] = useState(/** @type {Features} */ ({}));
  useEffect(() => {
    get("/config").then(
      (config) => setFeatures(config.features),
      () => setFeatures({}),
    );
  }, []);
  const ended = job["end-time"] > 0;
  const Shown = open && DIALOGS[open];
  const button = (
    /** @type {keyof typeof DIALOGS} */ key,
    /** @type {string} */ name,
    kind = "",
  ) => html`<button type="button" class=${kind} disabled=${ended} onClick=${() => setOpen(key)}>
    ${name}
  </button>`;
  return html`<${Fragment}>
    <div
      class="actions"
      role="group"
      aria-label=${`Change the job, which has ${plural(job.vertices.length, "vertex", "vertices")}`}
    >
      ${button("savepoint", "Savepoint")}
      ${features["web-rescale"] && button("rescale", "Rescale")}
      ${button("stop", "Stop", "danger")}
      ${features["web-cancel"] && button("cancel", "Cancel", "danger")}
    </div>
    ${Shown && html`<${Shown} job=${job} close=${() => setOpen(null)} />`}
  <//>`;
}
