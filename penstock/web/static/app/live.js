// Server-sent events: the page says which resources it shows, the server sends each when it has changed.
// By fetch and not by EventSource, which cannot send a token.
import { useEffect, useState } from "./lib.js";
import { ApiError, elsewhere, errorOf, getToken, headers, login, onToken, url } from "./api.js";

const resources = new Map(); // path -> {data, error, users: number, listeners: Set}
const stateListeners = new Set();
const SILENCE_MS = 15_000; // the server says something every few seconds; if not, the connection is dead

let state = "waiting"; // "live" or "waiting"
let current = null; // the AbortController of the stream that is open
let opened = ""; // what it was opened for
let planned = null;
let failures = 0;

let onFailure = async () => {};

// What else is to be done when the server does not answer.
export function whenFailing(handler) {
  onFailure = handler;
}

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
    return () => stateListeners.delete(set);
  }, []);
  return value;
}

function tell(path, change) {
  const resource = resources.get(path);
  if (!resource) return;
  Object.assign(resource, change);
  for (const each of resource.listeners) each({ data: resource.data, error: resource.error });
}

// Returns {data, error} of a resource, and again whenever it changes. No path: nothing is asked for.
export function useLive(path) {
  const [value, set] = useState({ path, ...peek(path) });
  useEffect(() => {
    if (!path) { set({ path }); return undefined; }
    set({ path, ...peek(path) });
    return watch(path, (news) => set({ path, ...news }));
  }, [path]);
  return value.path === path ? value : { path, ...peek(path) };
}

function peek(path) {
  const resource = path && resources.get(path);
  return resource ? { data: resource.data, error: resource.error } : {};
}

export function watch(path, listener) {
  let resource = resources.get(path);
  if (!resource) resources.set(path, (resource = { users: 0, listeners: new Set() }));
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
  return [...resources].filter(([, each]) => each.users > 0).map(([path]) => path).sort();
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

onToken(() => { opened = ""; failures = 0; plan(0); });
addEventListener("online", () => { opened = ""; plan(0); });
document.addEventListener("visibilitychange", () => {
  // A page that nobody sees costs the JobManager nothing.
  if (document.hidden) { current?.abort(); current = null; opened = ""; } else plan(0);
});

async function open(paths) {
  const controller = (current = new AbortController());
  let watchdog;
  const alive = () => {
    clearTimeout(watchdog);
    watchdog = setTimeout(() => controller.abort(), SILENCE_MS);
  };
  let error = null;
  try {
    alive();
    const query = encodeURIComponent(JSON.stringify(paths));
    const response = await fetch(url(`/penstock/live?paths=${query}`), {
      headers: headers({ Accept: "text/event-stream" }), signal: controller.signal, cache: "no-store", redirect: "manual",
    });
    if (response.type === "opaqueredirect") throw elsewhere();
    if (!response.ok) throw await errorOf(response);
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let buffer = "";
    for (;;) {
      const { value, done } = await reader.read();
      if (done) break;
      alive();
      failures = 0;
      setState("live");
      buffer += value;
      const events = buffer.split("\n\n");
      buffer = events.pop();
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
    const reason = getToken() ? "This token was refused." : "Reading this page needs the token of the JobManager.";
    for (const path of paths) tell(path, { error });
    if (!(await login(reason))) return; // until there is a token
  } else if (error instanceof ApiError && error.status >= 400 && error.status < 500) {
    for (const path of paths) tell(path, { error });
  } else if (failures >= 2) {
    const gone = new ApiError(0, ["the JobManager does not answer", "the page tries again by itself"]);
    for (const path of paths) if (!resources.get(path)?.data) tell(path, { error: gone });
  }
  failures += 1;
  await onFailure(failures);
  plan(Math.min(250 * 2 ** failures, 5000));
}

function take(event) {
  const data = event.split("\n").filter((line) => line.startsWith("data:")).map((line) => line.slice(5).trim()).join("\n");
  if (!data) return; // a sign of life
  const { path, status, content } = JSON.parse(data);
  if (status >= 400) tell(path, { error: new ApiError(status, content.errors || []) });
  else tell(path, { data: content, error: null });
}
