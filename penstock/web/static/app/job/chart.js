// @ts-check
// A live line chart.
import { clock } from "../format.js";
import { html, useEffect, useRef } from "../lib.js";

/** @import uPlot from "uplot" */
/** @import { Figure, Series } from "../../../types.d.ts" */
/** @typedef {(value: Figure) => string} Format */

const PALETTE = ["--accent", "--busy", "--ok", "--pressed", "--warn", "--bad", "--muted"];
const HEIGHT = 150;
/** @type {Promise<typeof uPlot> | null} */
let library = null;

function load() {
  library ??= import("uplot").then((module) => module.default);
  return library;
}

/** @param {string} name */
function colour(name) {
  // Canvas knows no light-dark(): the computed colour of an element does.
  const probe = document.createElement("i");
  probe.style.color = `var(${name})`;
  document.body.append(probe);
  const value = getComputedStyle(probe).color;
  probe.remove();
  return value;
}

// Bytes have round numbers of their own.
const BINARY = Array.from({ length: 50 }, (_, n) => 2 ** n);

/**
 * @param {{width: number, height: number}} size
 * @param {Series[]} series
 * @param {Format} format
 * @param {number | undefined} most
 * @param {boolean | undefined} binary
 * @returns {uPlot.Options}
 */
function options(size, series, format, most, binary) {
  const axis = {
    stroke: colour("--muted"),
    grid: { stroke: colour("--line"), width: 1 },
    ticks: { show: false },
    font: "11px system-ui",
  };
  return {
    width: size.width,
    height: size.height,
    cursor: { points: { size: 7 }, drag: { x: false, y: false } },
    legend: { show: false },
    scales: {
      x: { time: true },
      y: {
        range: (_, low, high) => [
          Math.min(0, low ?? 0),
          Math.max(most ?? 0, (high ?? 0) * 1.12, 1e-9),
        ],
      },
    },
    axes: [
      {
        ...axis,
        size: 26,
        values: (_, ticks) => ticks.map((tick) => clock(tick * 1000)),
        space: 90,
      },
      {
        ...axis,
        size: 68,
        space: 34,
        ...(binary ? { incrs: BINARY } : {}),
        values: (_, ticks) => ticks.map((tick) => format(tick)),
      },
    ],
    series: [
      {},
      ...series.map((each, n) => ({
        label: each.name,
        stroke: colour(PALETTE[n % PALETTE.length]),
        width: 1.8,
        points: { show: false },
        spanGaps: true,
      })),
    ],
  };
}

/** @param {number} n */
export function seriesColour(n) {
  return `var(${PALETTE[n % PALETTE.length]})`;
}

/**
 * @typedef {object} ChartProps
 * @property {number[]} times in ms
 * @property {Series[]} series
 * @property {Format} format
 * @property {number} [most] where the scale ends at least
 * @property {string} label
 * @property {boolean} [binary] whether the values are bytes
 */

/** @param {ChartProps} props */
export function Chart({ times, series, format, most, label, binary }) {
  const element = useRef(/** @type {HTMLElement | null} */ (null));
  const chart = useRef(/** @type {uPlot | null} */ (null));
  const names = series.map((each) => each.name).join("\n");
  useEffect(() => {
    let gone = false;
    const node = element.current;
    if (!node) return undefined;
    const width = () => Math.max(node.clientWidth, 120);
    const draw = async () => {
      const UPlot = await load();
      if (gone) return;
      chart.current?.destroy();
      chart.current = new UPlot(
        options({ width: width(), height: HEIGHT }, series, format, most, binary),
        data(),
        node,
      );
    };
    draw();
    const resize = new ResizeObserver(() =>
      chart.current?.setSize({ width: width(), height: HEIGHT }),
    );
    resize.observe(node);
    addEventListener("penstock-theme", draw);
    const scheme = matchMedia("(prefers-color-scheme: dark)");
    scheme.addEventListener("change", draw);
    return () => {
      gone = true;
      resize.disconnect();
      removeEventListener("penstock-theme", draw);
      scheme.removeEventListener("change", draw);
      chart.current?.destroy();
      chart.current = null;
    };
  }, [names]);
  /** @returns {uPlot.AlignedData} */
  function data() {
    return [
      times.map((time) => time / 1000),
      ...series.map((each) => each.values.map((value) => value ?? null)),
    ];
  }
  useEffect(() => {
    chart.current?.setData(data());
  }, [times.length, times[times.length - 1]]);
  return html`<div class="plot" ref=${element} role="img" aria-label=${label}></div>`;
}
