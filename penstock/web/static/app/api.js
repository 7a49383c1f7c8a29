// Asks the REST API. The token is kept for this tab only; who comes with #token=... in the address is logged in.
const KEY = "penstock.token";
const listeners = new Set();

function stored() {
  try { return sessionStorage.getItem(KEY); } catch { return null; }
}

let token = stored();
let asking = null; // the promise of a token that the user is asked for

export function getToken() {
  return token;
}

export function setToken(value) {
  token = value || null;
  try {
    if (token) sessionStorage.setItem(KEY, token);
    else sessionStorage.removeItem(KEY);
  } catch { /* no storage: it lasts as long as the page */ }
  for (const each of listeners) each(token);
}

export function onToken(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

// An address that ends with #token=abc&/jobs is for one click: the token leaves the address at once. `gone` is the JobManager
// that a page has come from because it did not answer.
export let cameFrom = null;
export function takeTokenFromAddress() {
  const found = /^#((?:token|gone)=.*?)(?:&?(\/.*))?$/.exec(location.hash);
  if (!found) return;
  const given = new URLSearchParams(found[1]);
  cameFrom = given.get("gone");
  if (given.get("token")) setToken(given.get("token"));
  history.replaceState(null, "", `${location.pathname}${location.search}#${found[2] || "/"}`);
  dispatchEvent(new HashChangeEvent("hashchange"));
}

// Goes on at another JobManager, with the same token and at the same place.
export function moveTo(address, { gone } = {}) {
  const start = new URLSearchParams({ ...(token ? { token } : {}), ...(gone ? { gone } : {}) }).toString();
  const place = location.hash.slice(1) || "/";
  location.replace(`${location.protocol}//${address}/#${start ? `${start}&` : ""}${place}`);
}

export class ApiError extends Error {
  constructor(status, errors) {
    super(errors[0] || `status ${status}`);
    this.status = status;
    this.details = errors.slice(1);
  }
}

// Set by the page: shows the log-in dialog and resolves to whether there is a token now.
let askForToken = async () => false;
export function whenTokenIsNeeded(ask) {
  askForToken = ask;
}

export function login(reason) {
  asking ??= askForToken(reason).finally(() => { asking = null; });
  return asking;
}

export function headers(more = {}) {
  return token ? { ...more, Authorization: `Bearer ${token}` } : more;
}

export function url(path) {
  return `v1${path}`;
}

// A standby sends clients to the leader. Where that is, a page may not read from the answer: it asks (leader.js).
export function elsewhere() {
  return new ApiError(307, ["another JobManager leads", "the page goes there by itself"]);
}

export async function errorOf(response) {
  let errors = [];
  try { errors = (await response.json()).errors || []; } catch { /* not ours: the status says all */ }
  return new ApiError(response.status, errors.length ? errors : [`${response.status} ${response.statusText}`]);
}

export async function request(method, path, { body, form, signal, text = false, mayAsk = true } = {}) {
  const options = { method, signal, headers: headers({ Accept: text ? "*/*" : "application/json" }), cache: "no-store", redirect: "manual" };
  if (form) options.body = form;
  else if (body !== undefined) {
    options.headers["Content-Type"] = "application/json";
    options.body = JSON.stringify(body);
  }
  let response;
  try {
    response = await fetch(url(path), options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(0, ["the JobManager does not answer", "it may have ended, or the network is down"]);
  }
  if (response.type === "opaqueredirect") throw elsewhere();
  if (response.status === 401 && mayAsk) {
    const reason = token ? "This token was refused." : "This needs the token of the JobManager.";
    if (await login(reason)) return request(method, path, { body, form, signal, text, mayAsk });
  }
  if (!response.ok) throw await errorOf(response);
  return text ? response.text() : response.json();
}

export const get = (path, options) => request("GET", path, options);

// Operations answer with an id; how they stand is asked for until they are done.
export async function operate(path, body, { onProgress, method = "POST" } = {}) {
  const started = await request(method, path, { body });
  const id = started["request-id"];
  onProgress?.("in progress");
  // A stop is asked for under the name of the savepoint that it takes.
  const status = `${path.replace(/\/stop$/, "/savepoints")}/${id}`;
  for (let wait = 150; ; wait = Math.min(wait * 1.4, 1500)) {
    await new Promise((done) => setTimeout(done, wait));
    const now = await get(status);
    if (now.status?.id !== "COMPLETED") continue;
    const cause = now.operation?.["failure-cause"];
    if (cause) throw new ApiError(500, [cause.message || cause.class, cause["stack-trace"] || ""].filter(Boolean));
    return now.operation;
  }
}
