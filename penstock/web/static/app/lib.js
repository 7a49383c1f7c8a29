// @ts-check
// The one place that knows the libraries.
import htm from "htm";
import { Fragment, h, render } from "preact";

/** @import { VNode } from "preact" */

export {
  useCallback,
  useEffect,
  useErrorBoundary,
  useId,
  useLayoutEffect,
  useMemo,
  useRef,
  useState,
} from "preact/hooks";
export { Fragment, render };

/**
 * Markup in a template: `html\`<${Card} title="Jobs">...<//>\``.
 * @type {(strings: TemplateStringsArray, ...values: unknown[]) => VNode | VNode[]}
 */
export const html = htm.bind(/** @type {(...values: unknown[]) => VNode} */ (h));
