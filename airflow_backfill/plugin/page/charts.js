// Small drawings as SVG, from what barriers recorded.

import { Box, colour, Flex, h, Muted, React } from "./elements.js";
import { about, clock, hour, short } from "./say.js";

const WIDTH = 640;
const HEIGHT = 150;
const LEFT = 44;
const BOTTOM = 28;
const TOP = 8;

const nice = (most) => {
  if (most <= 0) return 1;
  const unit = 10 ** Math.floor(Math.log10(most));
  return [1, 2, 2.5, 5, 10].map((n) => n * unit).find((n) => n >= most);
};

// Lines over time. Each has a name, a hue, and points {at, value}; a null value is a gap.
export const Lines = ({ lines, label, unit = "" }) => {
  const points = lines.flatMap((line) => line.points).filter((point) => point.value != null);
  const times = points.map((point) => point.at);
  const [start, end] = [Math.min(...times), Math.max(...times)];
  if (points.length < 2 || start === end) return h(Muted, null, "Not enough rounds to draw yet.");
  const most = nice(Math.max(...points.map((point) => point.value)));
  const x = (at) => LEFT + ((at - start) / (end - start)) * (WIDTH - LEFT - 8);
  const y = (value) => TOP + (1 - value / most) * (HEIGHT - TOP - BOTTOM);
  const said = lines.map((line) => `${line.name}: ${short(last(line.points)?.value)}${unit}`).join(", ");
  return h(
    Box,
    null,
    h(
      "svg",
      { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, width: "100%", role: "img", "aria-label": `${label}. Now ${said}`, style: { display: "block" } },
      [0, 0.5, 1].map((part) =>
        h(
          React.Fragment,
          { key: part },
          h("line", { x1: LEFT, x2: WIDTH - 8, y1: y(part * most), y2: y(part * most), stroke: "var(--chakra-colors-border)", strokeWidth: 1 }),
          h("text", { x: LEFT - 6, y: y(part * most) + 4, textAnchor: "end", fontSize: 11, fill: "var(--chakra-colors-fg-muted)" }, short(part * most)),
        ),
      ),
      h("text", { x: LEFT, y: HEIGHT - 8, fontSize: 11, fill: "var(--chakra-colors-fg-muted)" }, `${about(end - start)} earlier`),
      h("text", { x: WIDTH - 8, y: HEIGHT - 8, textAnchor: "end", fontSize: 11, fill: "var(--chakra-colors-fg-muted)" }, hour(end)),
      lines.map((line) =>
        h("path", {
          key: line.name,
          d: pathOf(line.points, x, y, line.steps),
          fill: "none",
          stroke: colour(line.hue),
          strokeWidth: 2,
          strokeDasharray: line.dashed ? "5 4" : undefined,
          strokeLinejoin: "round",
          vectorEffect: "non-scaling-stroke",
        }),
      ),
      lines.map((line) => {
        const end = last(line.points);
        return end && h("circle", { key: line.name, cx: x(end.at), cy: y(end.value), r: 3, fill: colour(line.hue) }, h("title", null, `${line.name}: ${short(end.value)}${unit} at ${clock(end.at)}`));
      }),
    ),
    h(
      Flex,
      { gap: 4, wrap: "wrap", mt: 1 },
      lines.map((line) =>
        h(
          Flex,
          { key: line.name, align: "center", gap: 2 },
          h(Box, { w: "14px", borderTopWidth: "3px", borderTopStyle: line.dashed ? "dashed" : "solid", borderColor: `${line.hue}.solid`, "aria-hidden": true }),
          h(Muted, { fontSize: "xs" }, `${line.name}: ${short(last(line.points)?.value)}${unit}`),
        ),
      ),
    ),
  );
};

const last = (points) => points.findLast((point) => point.value != null);

const pathOf = (points, x, y, steps) => {
  let pen = "M";
  let before = null;
  return points
    .map((point) => {
      if (point.value == null) {
        pen = "M";
        return "";
      }
      const corner = steps && pen === "L" ? `L${x(point.at).toFixed(1)} ${y(before).toFixed(1)}` : "";
      const drawn = `${corner}${pen}${x(point.at).toFixed(1)} ${y(point.value).toFixed(1)}`;
      pen = "L";
      before = point.value;
      return drawn;
    })
    .join("");
};

// How fast a number of the barriers grows, per minute, over a window of barriers: single rounds jump.
const WINDOW = 5;
export const perMinute = (history, name) =>
  history.map((point, n) => {
    const from = history[Math.max(n - WINDOW, 0)];
    const minutes = (point.at - from.at) / 60_000;
    const grown = point[name] == null || from[name] == null ? null : point[name] - from[name];
    return { at: point.at, value: minutes > 0 && grown != null ? Math.max(grown / minutes, 0) : null };
  });

// The strip of splits: how far each one is.
export const Strip = ({ splits }) =>
  h(
    Box,
    {
      role: "img",
      "aria-label": `${splits.cells.filter((cell) => cell.done === 1).length} of ${splits.cells.length} cells are read`,
      display: "grid",
      gridTemplateColumns: "repeat(auto-fill, minmax(12px, 1fr))",
      gap: "2px",
    },
    splits.cells.map((cell, n) =>
      h(
        Box,
        { key: n, h: "18px", borderRadius: "2px", bg: "bg.emphasized", overflow: "hidden", title: cell.said, position: "relative" },
        h(Box, { position: "absolute", insetX: 0, bottom: 0, h: `${100 * cell.done}%`, bg: cell.done === 1 ? "green.solid" : "blue.solid" }),
      ),
    ),
  );
