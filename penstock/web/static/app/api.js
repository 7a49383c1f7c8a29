// @ts-check
// Asks the REST API. The token is kept for this tab only; who comes with #token=... in the address
// is logged in.
import { arrivalAt, parseArrival } from "./address.js";
import { known } from "./format.js";

/** @import { Answer, OperationResult } from "../../types.d.ts" */

const KEY = "penstock.token";
/** @type {Set<(token: string | null) => void>} */
const listeners = new Set();

function stored() {
  try {
    return sessionStorage.getItem(KEY);
  } catch {
    return null;
  }
}

let token = stored();
/**
 * The promise of a token that the user is asked for.
 * @type {Promise<boolean> | null}
 */
let asking = null;

export function getToken() {
  return token;
}

/** @param {string | null} value */
export function setToken(value) {
  token = value || null;
  try {
    if (token) sessionStorage.setItem(KEY, token);
    else sessionStorage.removeItem(KEY);
  } catch {
    /* no storage: it lasts as long as the page */
  }
  for (const each of listeners) each(token);
}

/**
 * @param {(token: string | null) => void} listener
 * @returns {() => void}
 */
export function onToken(listener) {
  listeners.add(listener);
  return () => {
    listeners.delete(listener);
  };
}

/**
 * The JobManager that the page has come from because it did not answer.
 * @type {string | null}
 */
export let cameFrom = null;

// An address that ends with #token=abc&/jobs is for one click: the token leaves it at once.
export function takeTokenFromAddress() {
  const found = parseArrival(location.hash);
  if (!found) return;
  cameFrom = found.gone;
  if (found.token) setToken(found.token);
  history.replaceState(null, "", `${location.pathname}${location.search}#${found.place}`);
  dispatchEvent(new HashChangeEvent("hashchange"));
}

/**
 * Goes on at another JobManager, with the same token and at the same place.
 * @param {string} address
 * @param {{gone?: string}} why
 */
export function moveTo(address, { gone } = {}) {
  location.replace(arrivalAt(`${location.protocol}//${address}`, location.hash, { token, gone }));
}

export class ApiError extends Error {
  /**
   * @param {number} status 0 if there was no answer
   * @param {string[]} errors the message, then details
   */
  constructor(status, errors) {
    super(errors[0] || `status ${status}`);
    this.status = status;
    this.details = errors.slice(1);
  }
}

/** @typedef {(reason: string) => Promise<boolean>} Ask */

/**
 * Set by the page: shows the log-in dialog and resolves to whether there is a token now.
 * @type {Ask}
 */
let askForToken = async () => false;

/** @param {Ask} ask */
export function whenTokenIsNeeded(ask) {
  askForToken = ask;
}

/** @param {string} reason */
export function login(reason) {
  asking ??= askForToken(reason).finally(() => {
    asking = null;
  });
  return asking;
}

/**
 * @param {Record<string, string>} more
 * @returns {Record<string, string>}
 */
export function headers(more = {}) {
  return token ? { ...more, Authorization: `Bearer ${token}` } : more;
}

/** @param {string} path */
export function url(path) {
  return `v1${path}`;
}

// A standby sends clients to the leader. Where that is, a page may not read from the answer: it
// asks (leader.js).
export function elsewhere() {
  return new ApiError(307, ["another JobManager leads", "the page goes there by itself"]);
}

/** @param {Response} response */
export async function errorOf(response) {
  /** @type {string[]} */
  let errors = [];
  try {
    errors = (await response.json()).errors || [];
  } catch {
    /* not Penstock's: the status is all there is */
  }
  return new ApiError(
    response.status,
    errors.length ? errors : [`${response.status} ${response.statusText}`],
  );
}

/** @typedef {{status?: {id: string}, operation?: OperationResult}} Operation */
/** @typedef {{signal?: AbortSignal, mayAsk?: boolean}} Reading */
/** @typedef {Reading & {body?: unknown, form?: FormData, text?: boolean}} Sending */

/**
 * @param {string} method
 * @param {string} path
 * @param {Sending} sent
 * @returns {Promise<unknown>} the response of the server; `get` knows its type
 */
export async function request(method, path, sent = {}) {
  const { body, form, signal, text = false, mayAsk = true } = sent;
  /** @type {Record<string, string>} */
  const type = body === undefined ? {} : { "Content-Type": "application/json" };
  /** @type {RequestInit} */
  const options = {
    method,
    signal,
    headers: headers({ Accept: text ? "*/*" : "application/json", ...type }),
    cache: "no-store",
    redirect: "manual",
    body: form ?? (body === undefined ? undefined : JSON.stringify(body)),
  };
  /** @type {Response} */
  let response;
  try {
    response = await fetch(url(path), options);
  } catch (error) {
    if (wasAborted(error)) throw error;
    throw new ApiError(0, [
      "the JobManager does not answer",
      "it may have ended, or the network is down",
    ]);
  }
  if (response.type === "opaqueredirect") throw elsewhere();
  if (response.status === 401 && mayAsk) {
    const reason = token ? "This token was rejected." : "This needs the token of the JobManager.";
    if (await login(reason)) return request(method, path, sent);
  }
  if (!response.ok) throw await errorOf(response);
  return text ? response.text() : response.json();
}

/**
 * @template {string} P
 * @param {P} path
 * @param {Reading} [options]
 * @returns {Promise<Answer<P>>}
 */
export function get(path, options) {
  return /** @type {Promise<Answer<P>>} */ (request("GET", path, options));
}

/**
 * @param {string} path
 * @param {Reading} [options]
 * @returns {Promise<string>}
 */
export function getText(path, options) {
  return /** @type {Promise<string>} */ (request("GET", path, { ...options, text: true }));
}

/**
 * Whether the page itself gave up waiting for an answer.
 * @param {unknown} error
 */
export function wasAborted(error) {
  return error instanceof Error && error.name === "AbortError";
}

/**
 * What a failed request is shown as. Errors of other kinds are mistakes in the page.
 * @param {unknown} error
 */
export function asApiError(error) {
  return error instanceof ApiError ? error : new ApiError(0, [String(error)]);
}

/**
 * Operations respond with an id; their status is polled until they are done.
 * @param {string} path
 * @param {unknown} body
 * @returns {Promise<OperationResult | undefined>}
 */
export async function operate(path, body) {
  const started = await request("POST", path, { body });
  const { "request-id": id } = /** @type {{"request-id": string}} */ (started);
  // The status of a stop is that of its savepoint.
  const status = `${path.replace(/\/stop$/, "/savepoints")}/${id}`;
  for (let wait = 150; ; wait = Math.min(wait * 1.4, 1500)) {
    await new Promise((done) => setTimeout(done, wait));
    const now = /** @type {Operation} */ (await request("GET", status));
    if (now.status?.id !== "COMPLETED") continue;
    const cause = now.operation?.["failure-cause"];
    if (cause)
      throw new ApiError(500, [cause.message || cause.class, cause["stack-trace"]].filter(known));
    return now.operation;
  }
}
