// @ts-check
// Modal dialogs and their fields.
import { asApiError } from "./api.js";
import { html, useEffect, useId, useRef, useState } from "./lib.js";
import { ErrorNotice } from "./ui.js";

/** @import { Close } from "../../types.d.ts" */
/** @import { ApiError } from "./api.js" */

/**
 * The text of a field of a form.
 * @param {HTMLFormElement} form
 * @param {string} name
 */
export function fieldOf(form, name) {
  return /** @type {HTMLInputElement} */ (form.elements.namedItem(name)).value.trim();
}

/**
 * Whether a box of a form is checked.
 * @param {HTMLFormElement} form
 * @param {string} name
 */
export function isChecked(form, name) {
  return /** @type {HTMLInputElement} */ (form.elements.namedItem(name)).checked;
}

/**
 * @typedef {object} DialogProps
 * @property {string} title
 * @property {unknown} children
 * @property {string} [confirm]
 * @property {string} [tone]
 * @property {(form: HTMLFormElement) => unknown} submit
 * @property {Close} close
 * @property {boolean} [ready] whether it can be confirmed
 */

/**
 * A modal dialog. `submit` may return a promise: the dialog waits for it, shows its error and
 * stays.
 * @param {DialogProps} props
 */
export function Dialog({ title, children, confirm = "OK", tone, submit, close, ready = true }) {
  const element = useRef(/** @type {HTMLDialogElement | null} */ (null));
  const [working, setWorking] = useState(false);
  const [error, setError] = useState(/** @type {ApiError | null} */ (null));
  const label = useId();
  useEffect(() => {
    const dialog = element.current;
    const before = document.activeElement;
    dialog?.showModal();
    return () => {
      dialog?.close();
      if (before instanceof HTMLElement) before.focus();
    };
  }, []);
  const onSubmit = async (/** @type {SubmitEvent} */ event) => {
    event.preventDefault();
    const form = /** @type {HTMLFormElement} */ (event.currentTarget ?? event.target);
    setWorking(true);
    setError(null);
    try {
      await submit(form);
      close(true);
    } catch (caught) {
      setError(asApiError(caught));
      setWorking(false);
    }
  };
  return html`<dialog
    ref=${element}
    aria-labelledby=${label}
    onCancel=${(/** @type {Event} */ event) => {
      event.preventDefault();
      if (!working) close(false);
    }}
  >
    <form onSubmit=${onSubmit}>
      <h2 id=${label}>${title}</h2>
      ${children}
      ${error && html`<${ErrorNotice} error=${error} />`}
      <div class="buttons">
        <button type="button" disabled=${working} onClick=${() => close(false)}>Back</button>
        <button type="submit" class=${`primary ${tone ?? ""}`} disabled=${working || !ready}>
          ${working ? "Working…" : confirm}
        </button>
      </div>
    </form>
  </dialog>`;
}
