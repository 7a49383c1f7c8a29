// @ts-check
// Server-sent events: the page says which resources it shows, the server sends each when it has
// changed.
// By fetch and not by EventSource, which cannot send a token.

import { ApiError, elsewhere, errorOf, getToken, headers, login, onToken, url } from "./api.js";
import { parseEvent, retryDelay, splitEvents } from "./events.js";
import { useEffect, useState } from "./lib.js";

/** @import { Answer } from "../../types.d.ts" */
/**
 * @template T
 * @typedef {{data?: T, error?: ApiError | null}} Live
 */
/** @typedef {(news: Live<unknown>) => void} Listener */
/** @typedef {Live<unknown> & {users: number, listeners: Set<Listener>}} Shown */
/** @typedef {"live" | "waiting"} Connection */

/** @type {Map<string, Shown>} by path */
const resources = new Map();
/** @type {Set<(state: Connection) => void>} */
const stateListeners = new Set();
// The server sends an event or a heartbeat every few seconds; if not, the connection is dead.
const SILENCE_MS = 15_000;

/** @type {Connection} */
let state = "waiting";
/** @type {AbortController | null} of the stream that is open */
let current = null;
let opened = ""; // what it was opened for
/** @type {ReturnType<typeof setTimeout> | undefined} */
let planned;
let failures = 0;

/** @type {(failures: number) => Promise<void>} */
let onFailure = async () => {};

/**
 * What else is to be done when the server does not answer.
 * @param {typeof onFailure} handler
 */
export function whenFailing(handler) {
  onFailure = handler;
}

/** @param {Connection} next */
function setState(next) {
  if (state === next) return;
  state = next;
  for (const each of stateListeners) each(state);
}

export function useConnection() {
  const [value, set] = useState(state);
  useEffect(() => {
    set(state);
    stateListeners.add(set);
    return () => {
      stateListeners.delete(set);
    };
  }, []);
  return value;
}

/**
 * @param {string} path
 * @param {Live<unknown>} change
 */
function tell(path, change) {
  const resource = resources.get(path);
  if (!resource) return;
  Object.assign(resource, change);
  for (const each of resource.listeners) each({ data: resource.data, error: resource.error });
}

/**
 * Returns {data, error} of a resource, and again whenever it changes.
 * @template {string} P
 * @param {P} path
 * @returns {Live<Answer<P>>}
 */
export function useLive(path) {
  const [value, set] = useState({ path, ...peek(path) });
  useEffect(() => {
    set({ path, ...peek(path) });
    return watch(path, (news) => set({ path, ...news }));
  }, [path]);
  const shown = value.path === path ? value : peek(path);
  return /** @type {Live<Answer<P>>} */ (shown);
}

/**
 * @param {string} path
 * @returns {Live<unknown>}
 */
function peek(path) {
  const resource = resources.get(path);
  return resource ? { data: resource.data, error: resource.error } : {};
}

/**
 * @param {string} path
 * @param {Listener} listener
 * @returns {() => void}
 */
export function watch(path, listener) {
  /** @type {Shown} */
  const resource = resources.get(path) ?? { users: 0, listeners: new Set() };
  resources.set(path, resource);
  resource.users += 1;
  resource.listeners.add(listener);
  plan();
  return () => {
    resource.users -= 1;
    resource.listeners.delete(listener);
    plan();
  };
}

function wanted() {
  return [...resources]
    .filter(([, each]) => each.users > 0)
    .map(([path]) => path)
    .sort();
}

function plan(delay = 20) {
  clearTimeout(planned);
  planned = setTimeout(refresh, delay);
}

function refresh() {
  const paths = wanted();
  const key = JSON.stringify(paths);
  if (key === opened && current) return;
  for (const [path, each] of resources) if (!each.users) resources.delete(path);
  current?.abort();
  current = null;
  opened = key;
  if (paths.length) open(paths);
}

onToken(() => {
  opened = "";
  failures = 0;
  plan(0);
});
addEventListener("online", () => {
  opened = "";
  plan(0);
});
document.addEventListener("visibilitychange", () => {
  // A hidden page must not load the JobManager.
  if (document.hidden) {
    current?.abort();
    current = null;
    opened = "";
  } else plan(0);
});

/** @param {string[]} paths */
async function open(paths) {
  const controller = new AbortController();
  current = controller;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let watchdog;
  const alive = () => {
    clearTimeout(watchdog);
    watchdog = setTimeout(() => controller.abort(), SILENCE_MS);
  };
  /** @type {unknown} */
  let error = null;
  try {
    alive();
    const query = encodeURIComponent(JSON.stringify(paths));
    const response = await fetch(url(`/penstock/live?paths=${query}`), {
      headers: headers({ Accept: "text/event-stream" }),
      signal: controller.signal,
      cache: "no-store",
      redirect: "manual",
    });
    if (response.type === "opaqueredirect") throw elsewhere();
    if (!response.ok || !response.body) throw await errorOf(response);
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let buffer = "";
    for (;;) {
      const { value, done } = await reader.read();
      if (done) break;
      alive();
      failures = 0;
      setState("live");
      const { events, rest } = splitEvents(buffer + value);
      buffer = rest;
      for (const event of events) take(event);
    }
  } catch (caught) {
    error = caught;
  } finally {
    clearTimeout(watchdog);
  }
  if (current !== controller) return; // another one has taken its place
  current = null;
  opened = "";
  if (document.hidden) return;
  setState("waiting");
  if (error instanceof ApiError && error.status === 401) {
    const reason = getToken()
      ? "This token was rejected."
      : "Reading this page needs the token of the JobManager.";
    for (const path of paths) tell(path, { error });
    if (!(await login(reason))) return; // until there is a token
  } else if (error instanceof ApiError && error.status >= 400 && error.status < 500) {
    for (const path of paths) tell(path, { error });
  } else if (failures >= 2) {
    const gone = new ApiError(0, [
      "the JobManager does not answer",
      "the page tries again by itself",
    ]);
    for (const path of paths) if (!resources.get(path)?.data) tell(path, { error: gone });
  }
  failures += 1;
  await onFailure(failures);
  plan(retryDelay(failures));
}

/** @param {string} event */
function take(event) {
  const news = parseEvent(event);
  if (!news) return; // a heartbeat
  const { path, status, content } = news;
  if (status >= 400) {
    const { errors } = /** @type {{errors?: string[]}} */ (content);
    tell(path, { error: new ApiError(status, errors ?? []) });
  } else tell(path, { data: content, error: null });
}
