// The one place that knows the libraries.
import { h, render, Fragment } from "preact";
import htm from "htm";

export { render, Fragment };
export { useCallback, useEffect, useErrorBoundary, useId, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
export const html = htm.bind(h);
