// @ts-check
// Short messages that go away by themselves.
import { html, useEffect, useState } from "./lib.js";
import { Notice } from "./ui.js";

/** @import { NoticeTone } from "./ui.js" */
/** @typedef {{message: string, tone: NoticeTone, detail: string, key: number}} Toast */

/** @type {Set<(item: Toast) => void>} */
const toastListeners = new Set();

/**
 * @param {string} message
 * @param {NoticeTone} tone
 * @param {string} detail
 */
export function toast(message, tone = "ok", detail = "") {
  for (const each of toastListeners) each({ message, tone, detail, key: Math.random() });
}

export function Toasts() {
  const [shown, setShown] = useState(/** @type {Toast[]} */ ([]));
  useEffect(() => {
    const add = (/** @type {Toast} */ item) => {
      setShown((before) => [...before.slice(-3), item]);
      setTimeout(
        () => setShown((before) => before.filter((each) => each !== item)),
        item.tone === "bad" ? 12_000 : 7000,
      );
    };
    toastListeners.add(add);
    return () => {
      toastListeners.delete(add);
    };
  }, []);
  return html`<div class="toasts" role="status" aria-live="polite">${shown.map(
    (item) => html`<${Notice} key=${item.key} tone=${item.tone}>
      <strong>${item.message}</strong>
      ${item.detail && html`<div class="small mono">${item.detail}</div>`}
    <//>`,
  )}</div>`;
}
