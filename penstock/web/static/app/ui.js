// What pages are made of.
import { html, useEffect, useId, useRef, useState } from "./lib.js";
import { tone, words, share, known } from "./format.js";

export function Badge({ state, label }) {
  return html`<span class="badge" data-tone=${tone(state)}>${label ?? words(state)}</span>`;
}

export function Card({ title, actions, children, footer, flush, id }) {
  const label = useId();
  return html`<section class="card" aria-labelledby=${title ? label : undefined} id=${id}>
    ${title && html`<header><h2 id=${label}>${title}</h2>${actions}</header>`}
    ${flush ? children : html`<div class="body">${children}</div>`}
    ${footer && html`<footer>${footer}</footer>`}
  </section>`;
}

export function Stats({ items }) {
  return html`<dl class="stats">
    ${items.filter(Boolean).map(({ name, value, unit, title, key }) => html`<div class="stat" key=${key ?? name} title=${title}>
      <dt>${name}</dt><dd data-stat=${name}>${value}${unit && html`<small>${unit}</small>`}</dd>
    </div>`)}
  </dl>`;
}

const PICTURES = {
  nothing: html`<path d="M6 14h10c6 0 6 20 12 20h10M6 24h6M36 14h6M6 34h10M32 24h10" />`,
  wait: html`<circle cx="24" cy="24" r="16" /><path d="M24 14v10l7 5" />`,
  good: html`<circle cx="24" cy="24" r="16" /><path d="m16 24 6 6 11-12" />`,
};

export function Empty({ title, children, picture = "nothing" }) {
  return html`<div class="empty">
    <svg class="picture" viewBox="0 0 48 48" fill="none" stroke="currentColor" stroke-width="3" stroke-linecap="round" stroke-linejoin="round" aria-hidden="true">${PICTURES[picture]}</svg>
    <strong>${title}</strong>${children && html`<p>${children}</p>`}
  </div>`;
}

const SIGNS = {
  bad: html`<path d="M9 5v5M9 13v.5" /><circle cx="9" cy="9" r="8" />`,
  warn: html`<path d="M9 2 1.5 16h15zM9 7v4M9 13.2v.3" />`,
  info: html`<path d="M9 8v5M9 5v.5" /><circle cx="9" cy="9" r="8" />`,
  ok: html`<path d="m5.5 9.5 2.5 2.5 5-6" /><circle cx="9" cy="9" r="8" />`,
};

export function Notice({ tone = "info", children, role }) {
  return html`<div class="notice" data-tone=${tone} role=${role}>
    <svg class="sign" viewBox="0 0 18 18" fill="none" stroke="currentColor" stroke-width="1.6" stroke-linecap="round" stroke-linejoin="round" aria-hidden="true">${SIGNS[tone]}</svg>
    <div class="break">${children}</div>
  </div>`;
}

export function ErrorNotice({ error }) {
  return html`<${Notice} tone="bad" role="alert"><strong>${error.message}</strong>
    ${(error.details || []).filter((line) => !line.includes("\n")).map((line) => html`<div class="small">${line}</div>`)}<//>`;
}

export function Loading({ lines = 4, label = "Loading" }) {
  return html`<div role="status" aria-busy="true" aria-label=${label}>
    ${Array.from({ length: lines }, (_, n) => html`<div class="skeleton" style=${{ width: `${96 - ((n * 23) % 45)}%` }}></div>`)}
  </div>`;
}

// Shows what a live resource holds: waiting, an error, what is missing here, or the content.
export function Resource({ value, children, missing, lines }) {
  if (value.data !== undefined && value.data !== null) return children(value.data);
  if (value.error) {
    if (missing && (value.error.status === 404 || value.error.status === 501)) {
      return html`<${Empty} title=${missing}>${[value.error.message, ...value.error.details].join(" · ")}<//>`;
    }
    return html`<${ErrorNotice} error=${value.error} />`;
  }
  return html`<${Loading} lines=${lines} />`;
}

export function LoadBar({ busy, pressed, idle }) {
  if (!known(busy)) return html`<span class="bar" aria-hidden="true"></span>`;
  const label = `busy ${share(busy)}, back-pressured ${share(pressed)}, idle ${share(idle)}`;
  return html`<span class="bar" role="img" aria-label=${label} title=${label}>
    <i class="busy" style=${{ width: `${busy * 100}%` }}></i><i class="pressed" style=${{ width: `${pressed * 100}%` }}></i>
    <i class="idle" style=${{ width: `${idle * 100}%` }}></i></span>`;
}

export function LoadLegend() {
  return html`<div class="legend"><span><i style="background:var(--busy)"></i>busy</span>
    <span><i style="background:var(--pressed)"></i>back-pressured</span><span><i style="background:var(--idle)"></i>idle</span></div>`;
}

export function Segmented({ label, options, value, onChange }) {
  return html`<div class="segmented" role="group" aria-label=${label}>
    ${options.map(([key, text]) => html`<button type="button" key=${key} aria-pressed=${key === value} onClick=${() => onChange(key)}>${text}</button>`)}
  </div>`;
}

export function Copy({ text, label = "Copy" }) {
  const [done, setDone] = useState(false);
  const copy = async () => {
    await navigator.clipboard?.writeText(text);
    setDone(true);
    setTimeout(() => setDone(false), 1500);
  };
  return html`<button type="button" onClick=${copy}>${done ? "Copied" : label}</button>`;
}

// A modal dialog. `submit` may return a promise: the dialog waits for it, shows its error and stays.
export function Dialog({ title, children, confirm = "OK", tone, submit, close, ready = true }) {
  const element = useRef();
  const [working, setWorking] = useState(false);
  const [error, setError] = useState(null);
  const label = useId();
  useEffect(() => {
    const dialog = element.current;
    const before = document.activeElement;
    dialog.showModal();
    return () => { dialog.close(); before?.focus?.(); };
  }, []);
  const onSubmit = async (event) => {
    event.preventDefault();
    setWorking(true);
    setError(null);
    try {
      await submit(event.currentTarget ?? event.target);
      close(true);
    } catch (caught) {
      setError(caught);
      setWorking(false);
    }
  };
  return html`<dialog ref=${element} aria-labelledby=${label} onCancel=${(event) => { event.preventDefault(); if (!working) close(false); }}>
    <form onSubmit=${onSubmit}>
      <h2 id=${label}>${title}</h2>
      ${children}
      ${error && html`<${ErrorNotice} error=${error} />`}
      <div class="buttons">
        <button type="button" disabled=${working} onClick=${() => close(false)}>Back</button>
        <button type="submit" class=${`primary ${tone ?? ""}`} disabled=${working || !ready}>${working ? "Working…" : confirm}</button>
      </div>
    </form>
  </dialog>`;
}

const toastListeners = new Set();

export function toast(message, tone = "ok", detail = "") {
  for (const each of toastListeners) each({ message, tone, detail, key: Math.random() });
}

export function Toasts() {
  const [shown, setShown] = useState([]);
  useEffect(() => {
    const add = (item) => {
      setShown((before) => [...before.slice(-3), item]);
      setTimeout(() => setShown((before) => before.filter((each) => each !== item)), item.tone === "bad" ? 12_000 : 7000);
    };
    toastListeners.add(add);
    return () => toastListeners.delete(add);
  }, []);
  return html`<div class="toasts" role="status" aria-live="polite">
    ${shown.map((item) => html`<${Notice} key=${item.key} tone=${item.tone}><strong>${item.message}</strong>
      ${item.detail && html`<div class="small mono">${item.detail}</div>`}<//>`)}
  </div>`;
}
