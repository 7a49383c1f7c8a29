// @ts-check
// What pages are made of.
import { known, share, tone, words } from "./format.js";
import { html, useId, useState } from "./lib.js";

/** @import { Choice, Figure, Markup } from "../../types.d.ts" */
/** @import { ApiError } from "./api.js" */
/** @import { Live } from "./live.js" */
/** @typedef {"ok" | "info" | "warn" | "bad"} NoticeTone */
/** @typedef {{name: string, value: unknown, unit?: string, title?: string}} Item */

/** @param {{state: string, label?: string}} props */
export function Badge({ state, label }) {
  return html`<span class="badge" data-tone=${tone(state)}>${label ?? words(state)}</span>`;
}

/**
 * @typedef {object} CardProps
 * @property {string} [title]
 * @property {unknown} [actions] what stands at the right of the title
 * @property {unknown} [children]
 * @property {unknown} [footer]
 * @property {boolean} [flush] without space around the content
 * @property {string} [id]
 */

/** @param {CardProps} props */
export function Card({ title, actions, children, footer, flush, id }) {
  const label = useId();
  return html`<section class="card" aria-labelledby=${title ? label : undefined} id=${id}>
    ${title && html`<header><h2 id=${label}>${title}</h2>${actions}</header>`}
    ${flush ? children : html`<div class="body">${children}</div>`}
    ${footer && html`<footer>${footer}</footer>`}
  </section>`;
}

/** @param {{items: (Item | false | null | undefined | "")[]}} props */
export function Stats({ items }) {
  return html`<dl class="stats">${items.filter(isItem).map(
    ({ name, value, unit, title }) => html`<div class="stat" key=${name} title=${title}>
      <dt>${name}</dt>
      <dd data-stat=${name}>${value}${unit && html`<small>${unit}</small>`}</dd>
    </div>`,
  )}</dl>`;
}

/**
 * @param {Item | false | null | undefined | ""} item
 * @returns {item is Item}
 */
function isItem(item) {
  return Boolean(item);
}

const PICTURES = {
  nothing: html`<path d="M6 14h10c6 0 6 20 12 20h10M6 24h6M36 14h6M6 34h10M32 24h10" />`,
  wait: html`<circle cx="24" cy="24" r="16" /><path d="M24 14v10l7 5" />`,
  good: html`<circle cx="24" cy="24" r="16" /><path d="m16 24 6 6 11-12" />`,
};

/** @param {{title: string, children?: unknown, picture?: keyof typeof PICTURES}} props */
export function Empty({ title, children, picture = "nothing" }) {
  return html`<div class="empty">
    <svg
      class="picture"
      viewBox="0 0 48 48"
      fill="none"
      stroke="currentColor"
      stroke-width="3"
      stroke-linecap="round"
      stroke-linejoin="round"
      aria-hidden="true"
    >
      ${PICTURES[picture]}
    </svg>
    <strong>${title}</strong>
    ${children && html`<p>${children}</p>`}
  </div>`;
}

const SIGNS = {
  bad: html`<path d="M9 5v5M9 13v.5" /><circle cx="9" cy="9" r="8" />`,
  warn: html`<path d="M9 2 1.5 16h15zM9 7v4M9 13.2v.3" />`,
  info: html`<path d="M9 8v5M9 5v.5" /><circle cx="9" cy="9" r="8" />`,
  ok: html`<path d="m5.5 9.5 2.5 2.5 5-6" /><circle cx="9" cy="9" r="8" />`,
};

/** @param {{tone?: NoticeTone, children: unknown, role?: string}} props */
export function Notice({ tone = "info", children, role }) {
  return html`<div class="notice" data-tone=${tone} role=${role}>
    <svg
      class="sign"
      viewBox="0 0 18 18"
      fill="none"
      stroke="currentColor"
      stroke-width="1.6"
      stroke-linecap="round"
      stroke-linejoin="round"
      aria-hidden="true"
    >
      ${SIGNS[tone]}
    </svg>
    <div class="break">${children}</div>
  </div>`;
}

/** @param {{error: ApiError}} props */
export function ErrorNotice({ error }) {
  return html`<${Notice} tone="bad" role="alert">
    <strong>${error.message}</strong>
    ${error.details
      .filter((line) => !line.includes("\n"))
      .map((line) => html`<div class="small">${line}</div>`)}
  <//>`;
}

/** @param {{lines?: number, label?: string}} props */
export function Loading({ lines = 4, label = "Loading" }) {
  return html`<div role="status" aria-busy="true" aria-label=${label}>${Array.from(
    { length: lines },
    (_, n) => html`<div class="skeleton" style=${{ width: `${96 - ((n * 23) % 45)}%` }}></div>`,
  )}</div>`;
}

/**
 * The message of the server when there is nothing to show, which is not a failure.
 * @param {{title: string, error: ApiError}} props
 */
export function Missing({ title, error }) {
  return html`<${Empty} title=${title}>${[error.message, ...error.details].join(" · ")}<//>`;
}

/**
 * Shows what a live resource holds: waiting, an error, what is missing here, or the content.
 * @template T
 * @param {{value: Live<T>, children: (data: T) => Markup, missing?: string, lines?: number}} props
 */
export function Resource({ value, children, missing, lines }) {
  if (value.data !== undefined && value.data !== null) return children(value.data);
  if (value.error) {
    if (missing && (value.error.status === 404 || value.error.status === 501)) {
      return html`<${Missing} title=${missing} error=${value.error} />`;
    }
    return html`<${ErrorNotice} error=${value.error} />`;
  }
  return html`<${Loading} lines=${lines} />`;
}

/** @param {{busy?: Figure, pressed?: Figure, idle?: Figure}} props */
export function LoadBar({ busy, pressed, idle }) {
  if (!known(busy)) return html`<span class="bar" aria-hidden="true"></span>`;
  const label = `busy ${share(busy)}, back-pressured ${share(pressed)}, idle ${share(idle)}`;
  // The shares of a vertex are of different subtasks and may add up to more than one.
  const parts = [busy, pressed ?? 0, idle ?? 0];
  const whole = Math.max(
    1,
    parts.reduce((sum, part) => sum + part, 0),
  );
  const [first, second, third] = parts.map((part) => ({ width: `${(part / whole) * 100}%` }));
  return html`<span class="bar" role="img" aria-label=${label} title=${label}>
    <i class="busy" style=${first}></i>
    <i class="pressed" style=${second}></i>
    <i class="idle" style=${third}></i>
  </span>`;
}

export function LoadLegend() {
  return html`<div class="legend">
    <span><i style="background:var(--busy)"></i>busy</span>
    <span><i style="background:var(--pressed)"></i>back-pressured</span>
    <span><i style="background:var(--idle)"></i>idle</span>
  </div>`;
}

/**
 * @typedef {object} SegmentedProps
 * @property {string} label
 * @property {Choice[]} options
 * @property {string} value
 * @property {(key: string) => void} onChange
 */

/** @param {SegmentedProps} props */
export function Segmented({ label, options, value, onChange }) {
  return html`<div class="segmented" role="group" aria-label=${label}>${options.map(
    ([key, text]) => html`<button
      type="button"
      key=${key}
      aria-pressed=${key === value}
      onClick=${() => onChange(key)}
    >
      ${text}
    </button>`,
  )}</div>`;
}

/** @param {{text: string, label?: string}} props */
export function Copy({ text, label = "Copy" }) {
  const [done, setDone] = useState(false);
  const copy = async () => {
    await navigator.clipboard?.writeText(text);
    setDone(true);
    setTimeout(() => setDone(false), 1500);
  };
  return html`<button type="button" onClick=${copy}>${done ? "Copied" : label}</button>`;
}
