// @ts-check
// Parses and builds addresses of the page. Pure: the browser's address is a parameter.

/** @typedef {{path: string, parts: string[], query: Record<string, string>}} Route */

/**
 * The place in the part of the address after '#': /jobs/<id>/<tab>?vertex=<id>
 * @param {string} hash
 * @returns {Route}
 */
export function parseRoute(hash) {
  const [path, query = ""] = (hash.slice(1) || "/").split("?");
  const parts = path.split("/").filter(Boolean).map(decodeURIComponent);
  return { path, parts, query: Object.fromEntries(new URLSearchParams(query)) };
}

/**
 * The address of a place. What is undefined, null or empty in the query is left out.
 * @param {string[]} parts
 * @param {Record<string, string | null | undefined>} query
 */
export function href(parts, query = {}) {
  /** @type {[string, string][]} */
  const known = [];
  for (const [key, value] of Object.entries(query)) if (value) known.push([key, value]);
  const text = new URLSearchParams(known).toString();
  return `#/${parts.map(encodeURIComponent).join("/")}${text ? `?${text}` : ""}`;
}

/**
 * What an address like #token=abc&gone=host:1&/jobs brings along, and the place without it.
 * `gone` is the JobManager that the page has come from because it did not answer.
 * @param {string} hash
 * @returns {{token: string | null, gone: string | null, place: string} | null}
 */
export function parseArrival(hash) {
  const found = /^#((?:token|gone)=.*?)(?:&?(\/.*))?$/.exec(hash);
  if (!found) return null;
  const given = new URLSearchParams(found[1]);
  return { token: given.get("token"), gone: given.get("gone"), place: found[2] || "/" };
}

/**
 * The same place at another JobManager, with what `parseArrival` reads there.
 * @param {string} origin protocol, host and port
 * @param {string} hash the place here
 * @param {{token?: string | null, gone?: string}} brought
 */
export function arrivalAt(origin, hash, { token, gone }) {
  const start = new URLSearchParams({ ...(token ? { token } : {}), ...(gone ? { gone } : {}) });
  const text = start.toString();
  return `${origin}/#${text ? `${text}&` : ""}${hash.slice(1) || "/"}`;
}
