// @ts-check
// Places vertices from left to right. Pure: the same graph always looks the same.
import { Graph, layout } from "dagre";

/** @import { Edge, Layout, MergedEdge, Place } from "../../../types.d.ts" */

export const NODE = { width: 236, height: 116 };
const LABEL = { width: 104, height: 40 };

/**
 * @param {{id: string}[]} vertices
 * @param {{source: string, target: string}[]} edges
 * @returns {Layout}
 */
export function place(vertices, edges) {
  const graph = new Graph();
  graph.setGraph({
    rankdir: "LR",
    nodesep: 34,
    ranksep: 56,
    edgesep: 24,
    marginx: 24,
    marginy: 24,
  });
  graph.setDefaultEdgeLabel(() => ({}));
  for (const vertex of vertices) graph.setNode(vertex.id, { ...NODE });
  for (const edge of edges) graph.setEdge(edge.source, edge.target, { ...LABEL, labelpos: "c" });
  layout(graph);
  const { width = 0, height = 0 } = graph.graph();
  return {
    width: Math.max(width, NODE.width),
    height: Math.max(height, NODE.height),
    nodes: new Map(vertices.map(({ id }) => [id, graph.node(id)])),
    edges: edges.map((edge) => {
      const { points, x, y } = graph.edge(edge.source, edge.target);
      // From the right side of the one to the left side of the other, by way of the points between.
      const [from, to] = [graph.node(edge.source), graph.node(edge.target)];
      const way = [
        { x: from.x + NODE.width / 2, y: from.y },
        ...points.slice(1, -1),
        { x: to.x - NODE.width / 2, y: to.y },
      ];
      return {
        key: `${edge.source}>${edge.target}`,
        source: edge.source,
        target: edge.target,
        path: curve(way),
        x,
        y,
      };
    }),
  };
}

/**
 * A smooth line that leaves and arrives level: every piece is an S between two points.
 * @param {Place[]} points
 */
export function curve(points) {
  let text = `M${points[0].x},${points[0].y}`;
  for (let n = 1; n < points.length; n += 1) {
    const [from, to] = [points[n - 1], points[n]];
    const middle = (from.x + to.x) / 2;
    text += `C${middle},${from.y} ${middle},${to.y} ${to.x},${to.y}`;
  }
  return text;
}

/**
 * Several edges between the same two vertices are drawn as one.
 * @param {Edge[]} edges
 * @returns {MergedEdge[]}
 */
export function merged(edges) {
  /** @type {Map<string, MergedEdge>} */
  const found = new Map();
  for (const edge of edges) {
    const key = `${edge.source}>${edge.target}`;
    const before = found.get(key);
    if (before) before.strategies.add(edge.strategy);
    else found.set(key, { ...edge, strategies: new Set([edge.strategy]) });
  }
  return [...found.values()];
}

/**
 * Where an arrow key leads: along an edge, or up and down within a column.
 * @param {string} key
 * @param {string} id of the vertex
 * @param {Pick<Layout, "nodes">} layout
 * @param {{source: string, target: string}[]} edges
 */
export function neighbour(key, id, { nodes }, edges) {
  if (key === "ArrowRight") return edges.find((edge) => edge.source === id)?.target;
  if (key === "ArrowLeft") return edges.find((edge) => edge.target === id)?.source;
  if (key !== "ArrowUp" && key !== "ArrowDown") return undefined;
  const here = nodes.get(id);
  if (!here) return undefined;
  const way = key === "ArrowUp" ? -1 : 1;
  const found = [...nodes].filter(
    ([, at]) => Math.abs(at.x - here.x) < NODE.width / 2 && (at.y - here.y) * way > 0,
  );
  return found.sort(([, a], [, b]) => (a.y - b.y) * way)[0]?.[0];
}
