// @ts-check
// The calls of a flame graph: their places, names and colours. Pure.

/** @import { Call, Frame } from "../../../types.d.ts" */

const NARROWEST = 0.0015; // a share of the width below which a call is not drawn

/**
 * The calls with their places, as far as they are wide enough to be seen.
 * @param {Call | null | undefined} root
 * @returns {Frame[]}
 */
export function frames(root) {
  /** @type {Frame[]} */
  const found = [];
  if (!root?.value) return found;
  const whole = root.value;
  const visit = (
    /** @type {Call} */ node,
    /** @type {number} */ left,
    /** @type {number} */ depth,
    /** @type {string} */ path,
  ) => {
    const width = node.value / whole;
    if (width < NARROWEST) return;
    found.push({ node, left, width, depth, path });
    let next = left;
    for (const [n, child] of (node.children ?? []).entries()) {
      visit(child, next, depth + 1, `${path}.${n}`);
      next += child.value / whole;
    }
  };
  visit(root, 0, 0, "0");
  return found;
}

/**
 * A call with what it calls, and the calls that lead to it.
 * @param {Frame[]} all
 * @param {Frame} chosen
 */
export function around(all, chosen) {
  return all.filter((each) => within(each, chosen) || chosen.path.startsWith(`${each.path}.`));
}

/**
 * Whether a call is another one or was called by it.
 * @param {Frame} frame
 * @param {Frame} other
 */
export function within(frame, other) {
  return frame.path === other.path || frame.path.startsWith(`${other.path}.`);
}

/**
 * The same call has the same colour every time.
 * @param {string} name
 */
export function colour(name) {
  let hash = 0;
  for (const letter of name) hash = (hash * 31 + letter.charCodeAt(0)) | 0;
  const hue = 18 + (Math.abs(hash) % 34);
  const saturation = 72 + (Math.abs(hash >> 6) % 20);
  const lightness = 64 + (Math.abs(hash >> 12) % 14);
  return `hsl(${hue} ${saturation}% ${lightness}%)`;
}

/**
 * The short form of `package.module.Class.function:12`.
 * @param {string} name
 */
export function shortName(name) {
  const parts = name.split(".");
  return /^[A-Z]/.test(parts.at(-2) ?? "") ? parts.slice(-2).join(".") : (parts.at(-1) ?? name);
}
