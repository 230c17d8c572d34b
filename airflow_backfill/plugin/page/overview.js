// All builds, those that need attention first.

import { path, useLive } from "./ask.js";
import { Badge, Bar, Box, Button, Empty, Flex, Heading, HUES, h, hueOf, Input, Link, Loading, Muted, Notice, React, Text } from "./elements.js";
import { ago, errorOf, many, phase, short, span, tail } from "./say.js";

export const PAGE = "/plugin/table-backfills";
const WORDS = { trouble: "need attention", waits: "waiting", works: "working", done: "done" };
const SHOWN = 100;

export const address = (build) => `${PAGE}/${path(build.dag_id, build.key)}`;

export const Overview = () => {
  const { answer, error, at } = useLive("builds", 5_000);
  const [text, setText] = React.useState("");
  const [only, setOnly] = React.useState(null);
  const [shown, setShown] = React.useState(SHOWN);
  if (!answer) return error ? h(Box, { p: 4 }, h(Problem, { error })) : h(Loading);
  const builds = answer.builds;
  const wanted = builds.filter((one) => (!only || one.attention === only) && matches(one, text));
  return h(
    Box,
    { p: { base: 2, md: 4 }, maxW: "1600px", mx: "auto", w: "100%" },
    h(
      Flex,
      { align: "center", gap: 3, wrap: "wrap", mb: 4 },
      h(Heading, { as: "h1", size: "lg", flex: "1 1 auto" }, "Table backfills"),
      h(Input, {
        type: "search",
        "aria-label": "Search builds",
        placeholder: "Search by name, table, DAG, strategy, error …",
        value: text,
        onChange: (event) => setText(event.target.value),
        size: "sm",
        flex: "0 1 340px",
      }),
      h(
        Flex,
        { gap: 2, wrap: "wrap", role: "group", "aria-label": "Filter" },
        Object.keys(WORDS).map((kind) => h(Filter, { key: kind, kind, only, setOnly, builds })),
      ),
    ),
    error && h(Box, { mb: 3 }, h(Problem, { error, since: at })),
    builds.length === 0
      ? h(Empty, { title: "No builds yet" }, "Builds of DAGs that you may read appear here once their first task has started.")
      : wanted.length === 0
        ? h(Empty, { title: "No build matches" }, "Change the search or the filter.")
        : h(Rows, { builds: wanted.slice(0, shown) }),
    wanted.length > shown &&
      h(Flex, { justify: "center", mt: 3 }, h(Button, { variant: "outline", size: "sm", onClick: () => setShown(shown + SHOWN) }, `Show more of ${wanted.length}`)),
    answer.templated.length > 0 && h(Box, { mt: 3 }, h(Muted, { fontSize: "xs" }, unnamed(answer.templated))),
    h(Flex, { mt: 3, justify: "flex-end" }, h(Muted, { fontSize: "xs" }, `${many(builds.length, "build")}, updated ${ago(at)}`)),
  );
};

// DAGs whose targets only a run tells.
const SHOWN_DAGS = 10;
const unnamed = (dags) => {
  const more = dags.length - SHOWN_DAGS;
  return `The targets of these DAGs are templates, and Airflow keeps no run of them, so their builds are not shown: ${dags.slice(0, SHOWN_DAGS).join(", ")}${more > 0 ? ` and ${more} more` : ""}.`;
};

const matches = (one, text) => {
  const all = [one.name, one.target, one.source, one.topic, one.dag_id, one.strategy, one.phase, one.trouble?.code, one.health?.condition, one.health?.why, one.health?.by];
  const said = all.filter(Boolean).join(" ").toLowerCase();
  return text.toLowerCase().split(/\s+/).every((word) => said.includes(word));
};

const Filter = ({ kind, only, setOnly, builds }) =>
  h(
    Button,
    {
      size: "sm",
      variant: only === kind ? "solid" : "outline",
      colorPalette: HUES[kind],
      "aria-pressed": only === kind,
      onClick: () => setOnly(only === kind ? null : kind),
    },
    `${builds.filter((one) => one.attention === kind).length} ${WORDS[kind]}`,
  );

export const Problem = ({ error, since }) =>
  h(
    Notice,
    { hue: "red", title: since ? `No answer for ${span(Date.now() - since)}: this page shows older data` : "The builds cannot be read" },
    h(Text, { fontSize: "sm" }, errorOf(error)),
    error.way_out && h(Text, { fontSize: "sm" }, error.way_out),
  );

const COLUMNS = "minmax(200px, 2.2fr) minmax(150px, 1.2fr) minmax(70px, 0.6fr) minmax(100px, 0.8fr) minmax(80px, 0.6fr) minmax(80px, 0.6fr) minmax(220px, 2.6fr)";

export const Rows = ({ builds }) =>
  h(
    Box,
    { role: "table", "aria-label": "Builds", borderWidth: "1px", borderRadius: "lg", overflow: "hidden", bg: "bg.panel" },
    h(
      Box,
      { role: "row", display: { base: "none", lg: "grid" }, gridTemplateColumns: COLUMNS, gap: 4, px: 4, py: 2, bg: "bg.muted", color: "fg.muted", fontSize: "xs", fontWeight: "semibold" },
      ["Build", "Phase", "Rows/s", "Pending", "Time left", "History left", "Condition"].map((name) => h(Box, { key: name, role: "columnheader" }, name)),
    ),
    builds.map((one) => h(Row, { key: `${one.dag_id} ${one.key}`, one })),
  );

const cell = (label, ...children) =>
  h(
    Box,
    { role: "cell", minW: 0, fontVariantNumeric: "tabular-nums", fontSize: "sm" },
    h(Muted, { display: { base: "block", lg: "none" }, fontSize: "xs" }, label),
    ...children,
  );

const Row = ({ one }) => {
  const hue = HUES[one.attention];
  return h(
    Box,
    {
      role: "row",
      display: "grid",
      gridTemplateColumns: { base: "1fr 1fr", lg: COLUMNS },
      gap: { base: 2, lg: 4 },
      px: 4,
      py: 3,
      borderTopWidth: "1px",
      borderLeftWidth: "4px",
      borderLeftColor: `${hue}.solid`,
      alignItems: "start",
      _hover: { bg: "bg.subtle" },
    },
    h(
      Box,
      { role: "cell", minW: 0, gridColumn: { base: "1 / -1", lg: "auto" } },
      h(Link, { to: address(one), fontWeight: "semibold" }, one.name ?? tail(one.target)),
      h(Muted, { display: "block", fontSize: "xs", overflowWrap: "anywhere" }, one.target),
      h(Muted, { display: "block", fontSize: "xs" }, [one.dag_id, one.strategy].filter(Boolean).join(" · ")),
    ),
    one.phase == null
      ? cell("Phase", h(Badge, { colorPalette: "red" }, "unknown"))
      : cell(
          "Phase",
          h(Flex, { justify: "space-between", mb: 1 }, h("span", null, phase(one.phase)), one.percent != null && h(Muted, null, `${one.percent} %`)),
          one.percent != null && h(Bar, { percent: one.percent, hue, label: `${one.name}: ${one.percent} % of the build` }),
        ),
    cell("Rows/s", short(one.rows_per_second)),
    cell("Pending", one.lag ? `${short(one.lag.epochs)} epoch${one.lag.epochs === 1 ? "" : "s"}` : "–", one.lag?.epochs > 0 && h(Muted, { display: "block", fontSize: "xs" }, span(one.lag.age))),
    cell("Time left", span(one.seconds_left == null ? null : 1000 * one.seconds_left)),
    cell("History left", span(one.history_left)),
    h(
      Box,
      { role: "cell", minW: 0, gridColumn: { base: "1 / -1", lg: "auto" }, fontSize: "sm", overflowWrap: "anywhere" },
      one.trouble && h(Text, { color: "fg.error", lineClamp: 3, title: one.trouble.message }, errorOf(one.trouble)),
      one.health && !one.health.why.includes(one.trouble?.message) && h(Condition, { health: one.health, seen: one.seen }),
      (one.problems ?? []).map((said) => h(Text, { key: said, color: "fg.error", lineClamp: 2, title: said }, said)),
    ),
  );
};

export const Condition = ({ health, seen, clamp = 2 }) =>
  h(
    Box,
    null,
    h(
      Flex,
      { gap: 2, align: "baseline", wrap: "wrap" },
      h(Badge, { colorPalette: hueOf(health) }, health.condition),
      health.needs_attention && h(Badge, { colorPalette: "red", variant: "solid" }, "needs attention"),
      health.by && h("span", null, `by ${health.by}`),
      health.since != null && h(Muted, { fontSize: "xs" }, `for ${span(seen - health.since)}`),
    ),
    h(Text, { lineClamp: clamp, title: health.why, mt: 1, overflowWrap: "anywhere" }, health.why),
  );
