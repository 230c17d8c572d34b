// What Airflow's page gives to plugins: React, the router and Chakra. And a few pieces that every view uses.

export const React = globalThis.React;
export const Router = globalThis.ReactRouterDOM;
const C = globalThis.ChakraUI;

export const h = React.createElement;
export const { Badge, Box, Button, Flex, Grid, Heading, Input, Spinner, Table, Text, Textarea } = C;

export const HUES = { trouble: "red", waits: "orange", works: "blue", done: "green" };

// A build's condition, as in its health.
const CONDITIONS = { working: "blue", throttled: "blue", paused: "orange", waiting: "orange", starved: "orange", done: "green" };
export const hueOf = (health) => (health?.needs_attention ? "red" : (CONDITIONS[health?.condition] ?? "gray"));

export const colour = (hue) => `var(--chakra-colors-${hue}-solid)`;

export const Muted = (props) => h(Text, { as: "span", color: "fg.muted", fontSize: "sm", ...props });

export const Panel = ({ title, children, note, ...rest }) =>
  h(
    Box,
    { as: "section", borderWidth: "1px", borderRadius: "lg", p: 4, bg: "bg.panel", minW: 0, "aria-label": title, ...rest },
    title &&
      h(
        Flex,
        { justify: "space-between", align: "baseline", gap: 3, mb: 3, wrap: "wrap" },
        h(Heading, { as: "h3", size: "sm" }, title),
        note && h(Muted, null, note),
      ),
    children,
  );

export const Bar = ({ percent, hue = "blue", label }) =>
  h(
    Box,
    {
      role: "progressbar",
      "aria-label": label,
      "aria-valuenow": percent,
      "aria-valuemin": 0,
      "aria-valuemax": 100,
      h: "6px",
      borderRadius: "full",
      bg: "bg.emphasized",
      overflow: "hidden",
    },
    h(Box, { h: "100%", w: `${percent}%`, bg: `${hue}.solid`, borderRadius: "full", transition: "width 0.6s" }),
  );

export const Notice = ({ hue, title, children, live }) =>
  h(
    Box,
    {
      role: live ?? (hue === "red" ? "alert" : "status"),
      borderWidth: "1px",
      borderLeftWidth: "4px",
      borderLeftColor: `${hue}.solid`,
      bg: "bg.panel",
      borderRadius: "md",
      p: 3,
      overflowWrap: "anywhere",
    },
    title && h(Text, { fontWeight: "semibold", color: `${hue}.fg` }, title),
    children,
  );

export const Empty = ({ title, children }) =>
  h(Box, { py: 12, px: 4, textAlign: "center" }, h(Heading, { as: "h2", size: "md", mb: 2 }, title), h(Muted, null, children));

export const Loading = () =>
  h(Flex, { p: 8, gap: 3, align: "center", justify: "center", role: "status" }, h(Spinner, { size: "sm" }), h(Muted, null, "Loading builds …"));

// A table whose columns have these names.
export const Columns = ({ names, label, children }) =>
  h(
    Box,
    { overflowX: "auto" },
    h(
      Table.Root,
      { size: "sm", variant: "line", "aria-label": label, css: { "& tr": { background: "transparent" } } },
      h(Table.Header, null, h(Table.Row, null, names.map((name) => h(Table.ColumnHeader, { key: name, color: "fg.muted", fontSize: "xs" }, name)))),
      h(Table.Body, null, children),
    ),
  );

// Facts in pairs, as a list that wraps.
export const Facts = ({ facts }) =>
  h(
    Box,
    { as: "dl", display: "grid", gridTemplateColumns: "repeat(auto-fit, minmax(130px, 1fr))", gap: 4 },
    facts.filter(Boolean).map(([name, value, note]) =>
      h(
        Box,
        { key: name, minW: 0 },
        h(Text, { as: "dt", color: "fg.muted", fontSize: "xs" }, name),
        h(Text, { as: "dd", fontWeight: "semibold", fontVariantNumeric: "tabular-nums", overflowWrap: "anywhere" }, value),
        note && h(Muted, { fontSize: "xs", display: "block" }, note),
      ),
    ),
  );

// The line is below the underscores of a name: a name is copied from here.
export const Link = ({ to, children, ...rest }) =>
  h(Text, { as: Router.Link, to, color: "fg.info", textDecoration: "underline", textUnderlineOffset: "4px", overflowWrap: "anywhere", ...rest }, children);
