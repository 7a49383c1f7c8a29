// @ts-check
// Where the page is, and going elsewhere.
import { href, parseRoute } from "./address.js";
import { useEffect, useState } from "./lib.js";

export { href };

const parse = () => parseRoute(location.hash);

export function useRoute() {
  const [route, setRoute] = useState(parse);
  useEffect(() => {
    const changed = () => setRoute(parse());
    addEventListener("hashchange", changed);
    changed();
    return () => removeEventListener("hashchange", changed);
  }, []);
  return route;
}

/**
 * @param {string[]} parts
 * @param {Record<string, string | null | undefined>} [query]
 */
export function go(parts, query) {
  location.hash = href(parts, query);
}
