// One build: its progress, what it waits for, its proof, cost, attempts and commands.

import { get, path, useLive } from "./ask.js";
import { Lines, perMinute, Strip } from "./charts.js";
import { Commands, hindrance } from "./commands.js";
import { Badge, Bar, Box, Button, Columns, Facts, Flex, Grid, h, Heading, hueOf, Link, Loading, Muted, Notice, Panel, React, Table, Text } from "./elements.js";
import { Condition, PAGE, Problem } from "./overview.js";
import { ago, bytes, clock, count, errorOf, KINDS, many, phase, PHASES, short, span, tail } from "./say.js";

const CHANGING_MS = 3_000;
const RESTING_MS = 20_000;
const RESTS = ["finished", "upstream", "cancelled", "dropped"];
const WITHOUT_STATE = ["planning", "dropped"];

export const Build = ({ dag, build, whole }) => {
  const [every, setEvery] = React.useState(CHANGING_MS);
  const [row, setRow] = React.useState(null);
  const where = path("dags", dag, "builds", build);
  const { answer, error, at, again } = useLive(where, every);
  React.useEffect(() => setEvery(RESTS.includes(answer?.phase) ? RESTING_MS : CHANGING_MS), [answer?.phase]);
  const known = React.useRef(null);
  if (answer?.phase) known.current = { answer, at };
  if (!answer) return error ? h(Box, { p: 4 }, h(Problem, { error })) : h(Loading);
  // A store that answers late once takes neither what is shown nor what is typed.
  const late = !answer.phase && answer.trouble?.retry && known.current;
  const found = late ? late.answer : answer;
  const problem = error ?? (late && answer.trouble);
  return h(
    Box,
    { p: { base: 2, md: 4 }, maxW: "1400px", mx: "auto", w: "100%", display: "flex", flexDirection: "column", gap: 4 },
    h(Head, { found, whole, dag }),
    problem && h(Problem, { error: problem, since: late ? late.at : at }),
    found.trouble && h(Notice, { hue: "red", title: found.trouble.code }, !found.health?.why.includes(found.trouble.message) && h(Text, { fontSize: "sm" }, found.trouble.message), found.trouble.way_out && h(Text, { fontSize: "sm" }, found.trouble.way_out)),
    (found.problems ?? []).map((said) => h(Notice, { key: said, hue: "red" }, h(Text, { fontSize: "sm" }, said))),
    found.phase && h(Waits, { found }),
    (found.phase || found.trouble) && found.phase !== "dropped" && h(Commands, { found, where, again, row }),
    found.phase && !WITHOUT_STATE.includes(found.phase) && h(Progress, { found, explain: (values) => setRow([...values]) }),
    found.cost && h(Cost, { found }),
    h(Answers, { found, where }),
    found.attempts && h(Attempts, { found }),
    found.commands && h(Orders, { found }),
  );
};

const Head = ({ found, whole, dag }) =>
  h(
    Box,
    null,
    whole && h(Link, { to: PAGE, fontSize: "sm" }, "← All builds"),
    h(
      Flex,
      { align: "center", gap: 3, wrap: "wrap" },
      h(Heading, { as: "h1", size: "lg", overflowWrap: "anywhere" }, found.name ?? tail(found.target)),
      found.phase && h(Badge, { size: "lg", colorPalette: RESTS.includes(found.phase) ? "green" : "blue" }, phase(found.phase)),
      found.in_force?.paused && h(Badge, { size: "lg", colorPalette: "orange" }, "paused"),
      found.in_force?.held && h(Badge, { size: "lg", colorPalette: "orange" }, "on hold"),
      found.strategy && h(Muted, null, `strategy ${found.strategy}`),
    ),
    h(
      Text,
      { fontSize: "sm", color: "fg.muted", overflowWrap: "anywhere" },
      [found.topic && `topic ${found.topic}`, found.source].filter(Boolean).map((from) => `${from} → `),
      found.target,
    ),
    h(Flex, { gap: 3, mt: 1, wrap: "wrap", fontSize: "sm" }, h(Link, { to: `/dags/${encodeURIComponent(dag)}` }, `DAG ${dag}`), h(LastTask, { found })),
  );

const LastTask = ({ found }) => {
  const task = found.tasks?.[0];
  if (!task) return found.tasks && !found.run?.run_id && h(Muted, null, "Airflow keeps no run of this build; a new run of the DAG goes on with it.");
  return h(React.Fragment, null, h(Link, { to: taskAddress(task) }, `task ${task.task_id}`), h(Muted, null, task.state ?? "no state"));
};

const taskAddress = (task) => {
  const mapped = task.map_index == null || task.map_index < 0 ? "" : `/mapped/${task.map_index}`;
  return `/dags/${encodeURIComponent(task.dag_id)}/runs/${encodeURIComponent(task.run_id)}/tasks/${encodeURIComponent(task.task_id)}${mapped}`;
};

// A task that waits in the triggerer says nothing more.
const STALE_MS = 120_000;

const Waits = ({ found }) => {
  const { health } = found;
  const old = found.run?.gate_at == null ? 0 : found.seen - found.run.gate_at;
  const asOf = old > STALE_MS ? `, as its task saw it ${span(old)} ago` : "";
  const gate = (found.run?.gate ?? []).map((reason) => `the gate${asOf}: ${reason}`);
  const reasons = [...(found.waits_for ?? []), ...gate].filter((reason) => reason !== health.why);
  return h(
    Notice,
    { hue: hueOf(health) },
    h(Condition, { health, seen: found.seen, clamp: 8 }),
    health.way_out && !found.trouble && h(Text, { mt: 2, fontSize: "sm" }, health.way_out),
    reasons.length > 0 &&
      h(
        Box,
        { mt: 2 },
        h(Muted, { fontSize: "xs" }, "Waits for"),
        h(Box, { as: "ul", ps: 4, listStyleType: "disc", fontSize: "sm" }, reasons.map((reason) => h("li", { key: reason }, reason))),
      ),
    (found.clocks ?? []).map((doubt) => h(Text, { key: doubt, mt: 2, fontSize: "sm" }, `Clock: ${doubt}`)),
  );
};

const Progress = ({ found, explain }) => {
  const wide = { base: "1fr", xl: "1fr 1fr" };
  return h(
    React.Fragment,
    null,
    h(Panel, { title: "Progress", note: `${found.percent} % of the build${found.phases?.length ? `, began ${clock(found.phases[0].from)}` : ""}` }, h(PhaseLine, { found }), h(Numbers, { found })),
    h(
      Grid,
      { templateColumns: wide, gap: 4 },
      h(Panel, { title: "Pending epochs", note: verdict(found) }, h(Pending, { found })),
      h(Panel, { title: "Epochs per minute", note: "applied by the build, committed at the source" }, h(Rates, { found })),
    ),
    h(
      Grid,
      { templateColumns: wide, gap: 4 },
      h(Panel, { title: "Splits", note: `${count(found.splits.count)} in ${found.splits.lanes} lane${found.splits.lanes > 1 ? "s" : ""}` }, h(Strip, { splits: found.splits }), h(Reading, { found }), h(Partitions, { found })),
      h(Panel, { title: "Proof" }, h(Proof, { found, explain })),
    ),
  );
};

const PhaseLine = ({ found }) => {
  const times = Object.fromEntries((found.phases ?? []).map((one) => [one.phase, one]));
  const here = PHASES.indexOf(found.phase);
  return h(
    Box,
    { as: "ol", display: "grid", gridTemplateColumns: { base: "1fr", md: `repeat(${PHASES.length}, 1fr)` }, columnGap: 5, rowGap: 2, mb: 4, listStyleType: "none" },
    PHASES.map((name, n) => {
      const time = times[name];
      const state = here < 0 ? "unknown" : n < here ? "done" : n === here ? "current" : "not started";
      const hue = state === "done" || (state === "current" && RESTS.includes(name)) ? "green" : state === "current" ? "blue" : "gray";
      return h(
        Box,
        { as: "li", key: name, "aria-current": state === "current" ? "step" : undefined },
        h(Bar, { percent: n < here ? 100 : n === here ? (RESTS.includes(name) ? 100 : found.phase_percent) : 0, hue, label: `${phase(name)}: ${state}` }),
        h(Flex, { justify: "space-between", mt: 1, gap: 2 }, h(Text, { fontSize: "sm", fontWeight: state === "current" ? "semibold" : "normal", color: state === "not started" ? "fg.muted" : undefined }, phase(name)), n === here && !RESTS.includes(name) && h(Muted, null, `${found.phase_percent} %`)),
        h(Muted, { fontSize: "xs" }, time ? (time.to == null ? `for ${span(found.seen - time.from)}` : `took ${span(time.to - time.from)}`) : state),
      );
    }),
  );
};

const Numbers = ({ found }) => {
  const { lag, read, rows } = found;
  return h(Facts, {
    facts: [
      ["Copied", `${count(read.done)} of ${count(read.of)} ${read.unit}`, `${short(rows.consuming_snapshot)} rows`],
      ["Snapshot read", bytes(found.snapshot_bytes), found.topic ? "of records" : "by file sizes"],
      ["Applied from the log", `${short(rows.consuming_log_store + rows.consuming_upstream)} rows`, many(found.epochs.log + found.epochs.upstream, "epoch")],
      ["Speed", found.rows_per_second == null ? "–" : `${short(found.rows_per_second)} rows/s`, "including waits"],
      ["Time left", span(found.seconds_left == null ? null : 1000 * found.seconds_left), "in this phase"],
      ["Pending", lag ? many(lag.epochs, "epoch") : "unknown", lag?.epochs ? `the oldest for ${span(lag.age)}` : lag && "up to date"],
      ["Target at epoch", found.epoch ?? "none yet", found.handoff != null ? `hand-off at ${found.handoff}` : lag && `source at ${lag.head}`],
      (lag || found.unread) && [
        "History left",
        span(found.history_left ?? lag?.kept),
        `before ${found.unread?.readable === found.history_left ? "Kafka" : "the source"} may delete what the build needs`,
      ],
    ],
  });
};

const verdict = (found) => {
  const pending = (found.history ?? []).filter((point) => point.pending != null);
  if (RESTS.includes(found.phase) || pending.length < 2) return null;
  const applied = perMinute(pending, "epoch").at(-1)?.value;
  const changed = perMinute(pending, "head").at(-1)?.value;
  if (applied == null || changed == null || found.phase === "snapshot") return null;
  if (applied > changed) return `converging: ${short(applied - changed)} fewer per minute`;
  return pending.at(-1).pending === 0 ? "keeping up" : "not converging";
};

const Pending = ({ found }) => {
  const history = found.history ?? [];
  const of = (name) => history.map((point) => ({ at: point.at, value: point[name] }));
  const lines = [{ name: "pending", hue: "blue", points: of("pending"), steps: true }];
  if (history.some((point) => point.bound != null)) lines.push({ name: "bound", hue: "orange", points: of("bound"), dashed: true, steps: true });
  return h(Lines, { lines, label: "Pending epochs against the bound" });
};

const Rates = ({ found }) => {
  const history = (found.history ?? []).filter((point) => point.epoch != null && point.head != null);
  return h(Lines, {
    label: "Epochs per minute",
    unit: "/min",
    lines: [
      { name: "applied", hue: "green", points: perMinute(history, "epoch") },
      { name: "committed", hue: "orange", points: perMinute(history, "head"), dashed: true },
    ],
  });
};

// The first splits that are being read. For a topic, Partitions shows more.
const Reading = ({ found }) =>
  !found.partitions &&
  found.splits.reading.length > 0 &&
  h(Box, { mt: 3, display: "grid", gap: 1 }, found.splits.reading.map((said) => h(Muted, { key: said, fontSize: "xs" }, said)));

const Partitions = ({ found }) => {
  const behind = (found.partitions ?? []).filter((one) => one.state !== "finished");
  if (behind.length === 0) return null;
  return h(
    Box,
    { mt: 3, display: "grid", gap: 1 },
    behind.slice(0, 8).map((one) => h(Muted, { key: one.partition }, `partition ${one.partition}: ${phase(one.state)}, ${count(one.left)} records left`)),
    behind.length > 8 && h(Muted, null, `and ${behind.length - 8} more`),
  );
};

const Proof = ({ found, explain }) => {
  const { certificate: proof, difference } = found;
  return h(
    Box,
    { display: "flex", flexDirection: "column", gap: 3 },
    difference && h(Notice, { hue: "red", title: "The copy differs" }, h(Difference, { difference, found, explain })),
    proof
      ? h(
          React.Fragment,
          null,
          h(Notice, { hue: "green", title: "Proven equal to the source" }, h(Text, { fontSize: "sm" }, `${count(proof.rows)} rows at epoch ${proof.epoch}, ${proof.kind}, ${ago(proof.at, found.seen)}`)),
          h(Muted, { fontFamily: "mono", fontSize: "xs", overflowWrap: "anywhere" }, `${proof.row_hash} ${proof.digest}`),
          proof.gone > 0 && h(Muted, null, `${count(proof.gone)} records that Kafka has deleted since were counted, not compared`),
        )
      : !difference && h(Muted, null, "Not proven yet: verify compares the copy with the source after the catch-up."),
  );
};

const SHOWN_KEYS = 8;
const HIDDEN = "***";

// How many keys differ; which and how, for those who may command the build.
const Difference = ({ difference, found, explain }) => {
  const [all, setAll] = React.useState(false);
  const { counts, keys } = difference;
  const counted = Object.entries(counts).map(([kind, n]) => `${count(n)} ${KINDS[kind]}`);
  const total = Object.values(counts).reduce((sum, n) => sum + n, 0);
  const hidden = keys?.length > 0 && keys.every((one) => Object.values(one.key).every((value) => value === HIDDEN));
  return h(
    Box,
    { display: "grid", gap: 2, fontSize: "sm" },
    h(
      Text,
      null,
      counted.length > 0
        ? `${many(total, "key")}: ${counted.join(", ")}, at epoch ${difference.epoch ?? "–"}; found by attempt ${difference.generation}, ${ago(difference.at, found.seen)}`
        : (difference.message ?? "See the log of the verify task."),
    ),
    !keys && counted.length > 0 && h(Muted, { fontSize: "xs" }, "People who may command the build see which keys differ."),
    hidden && h(Muted, { fontSize: "xs" }, "The build hides values of rows, so its keys are not shown."),
    keys?.length > 0 &&
      !hidden &&
      h(
        Columns,
        { names: ["Key", "How", ""], label: "Keys that differ" },
        keys.slice(0, all ? undefined : SHOWN_KEYS).map((one, n) => h(DifferingKey, { key: n, one, found, explain })),
      ),
    !hidden && keys?.length > SHOWN_KEYS && !all && h(Box, null, h(Button, { size: "xs", variant: "ghost", onClick: () => setAll(true) }, `Show all ${keys.length}`)),
    !hidden && all && total > keys.length && h(Muted, { fontSize: "xs" }, `These are the first ${keys.length} of ${count(total)}.`),
  );
};

const DifferingKey = ({ one, found, explain }) => {
  const values = one.explain?.map((part, n) => part.slice(found.key[n].length + 1));
  const why = values && hindrance(found, "explain");
  return h(
    Table.Row,
    null,
    h(Table.Cell, { minW: "100px", fontFamily: "mono", fontSize: "xs", overflowWrap: "anywhere" }, Object.entries(one.key).map(([name, value]) => `${name}=${value}`).join(", ")),
    h(Table.Cell, { fontSize: "xs" }, KINDS[one.kind]),
    h(Table.Cell, { textAlign: "end" }, values && h(Button, { size: "xs", variant: "outline", disabled: Boolean(why), title: why, onClick: () => explain(values) }, "Explain …")),
  );
};

// Why rows are as they are. Each answer is read when a person opens it.
const SHOWN_ANSWERS = 8;

const Answers = ({ found, where }) => {
  const [shown, setShown] = React.useState(null);
  const [all, setAll] = React.useState(false);
  const stored = found.explanations ?? [];
  const asked = Object.fromEntries((found.attempts ?? []).filter((one) => one.task === "explain").map((one) => [one.generation, one]));
  const known = [...new Set([...Object.keys(asked).map(Number), ...stored])].sort((a, b) => b - a);
  if (!found.may_command || known.length === 0) return null;
  const show = async (generation) => {
    // A late answer opens nothing that was closed meanwhile, and replaces no other one.
    const answered = (found) => setShown((now) => (now?.generation === generation ? { generation, ...found } : now));
    setShown({ generation, text: "Loading …" });
    try {
      answered(await get(`${where}/${path("explanations", generation)}`));
    } catch (error) {
      answered({ text: errorOf(error) });
    }
  };
  return h(
    Panel,
    { title: "Why a row is as it is", note: "newest first" },
    known.slice(0, all ? undefined : SHOWN_ANSWERS).map((generation) => {
      const open = shown?.generation === generation;
      const one = asked[generation] ?? (open ? shown : {});
      return h(
        Box,
        { key: generation, mb: 2 },
        h(
          Flex,
          { gap: 3, align: "center", wrap: "wrap" },
          h(Button, { size: "xs", variant: "outline", disabled: !stored.includes(generation), "aria-expanded": open, onClick: () => (open ? setShown(null) : show(generation)) }, `Answer of attempt ${generation}`),
          h(Muted, null, one.outcome ?? one.life, one.by && ` asked by ${one.by}`, one.why && `: ${one.why}`),
        ),
        open && shown.topic && h(OfTopic, { one: shown }),
        open && !shown.topic && h(Box, { as: "pre", mt: 2, fontFamily: "mono", fontSize: "xs", whiteSpace: "pre-wrap", overflowWrap: "anywhere" }, shown.text),
      );
    }),
    known.length > SHOWN_ANSWERS && !all && h(Button, { size: "xs", variant: "ghost", onClick: () => setAll(true) }, `Show all ${known.length}`),
  );
};

const VERDICTS = { equal: ["green", "as it should be"], differs: ["red", "differs"], unknown: ["orange", "unknown"] };
const MONO = { fontFamily: "mono", fontSize: "xs", overflowWrap: "anywhere" };

// The records of a topic that have the key, and what became of each.
const OfTopic = ({ one: { key, verdict, topic } }) => {
  const [hue, said] = VERDICTS[verdict] ?? ["gray", verdict];
  return h(
    Box,
    { mt: 2, mb: 4, display: "grid", gap: 3 },
    h(
      Notice,
      { hue, title: `${Object.entries(key).map(([name, value]) => `${name}=${value}`).join(", ")}: ${said}` },
      h(Text, { fontSize: "sm" }, topic.why),
      h(Text, { ...MONO, mt: 2 }, `holds: ${topic.holds}`),
      topic.should != null && topic.should !== topic.holds && h(Text, MONO, `should hold: ${topic.should}`),
    ),
    h(Muted, { fontSize: "xs" }, topic.looked_at),
    topic.warnings.map((said) => h(Text, { key: said, fontSize: "xs", color: "fg.warning" }, said)),
    topic.records.length === 0 && h(Muted, null, "No record of the key was found."),
    h(Box, { as: "ol", listStyleType: "none", "aria-label": "Records of the key" }, topic.records.map((record) => h(TopicRecord, { key: record.place, record }))),
  );
};

const TopicRecord = ({ record }) =>
  h(
    Box,
    { as: "li", display: "grid", gridTemplateColumns: { base: "1fr", lg: "minmax(240px, 1fr) 3fr" }, columnGap: 4, rowGap: 1, py: 2, borderTopWidth: "1px", fontSize: "sm" },
    h(Box, null, record.place, h(Muted, { display: "block", fontSize: "xs" }, `${clock(record.at)}, ${record.kept}`)),
    h(Box, { minW: 0 }, record.fate, record.had && h(Box, { ...MONO, color: "fg.muted" }, record.had), h(Box, MONO, `→ ${record.made}`)),
  );

// What all attempts have cost: known once the build is finished or cancelled.
const Cost = ({ found }) => {
  const { cost } = found;
  return h(
    Panel,
    { title: "What the build cost", note: cost.uncounted > 0 ? `at least: ${many(cost.uncounted, "attempt")} did not report everything` : many(cost.attempts, "attempt") },
    h(Facts, {
      facts: [
        ["Core hours", (cost.core_seconds / 3600).toFixed(2), "time of all Spark tasks"],
        ["Read", bytes(cost.read_bytes), "files of tables, whole"],
        ["Written", bytes(cost.written_bytes), "into tables"],
        ["Shuffled", bytes(cost.shuffled_bytes), "between tasks"],
        ["Requests", count(cost.driver_requests + cost.worker_requests), "to object stores; executors' not counted"],
      ],
    }),
  );
};

const LIVES = { running: "green", starting: "blue", silent: "red", superseded: "gray", ended: "gray", unknown: "gray" };

const Attempts = ({ found }) =>
  h(
    Panel,
    { title: "Attempts", note: "newest first" },
    h(
      Columns,
      { names: ["#", "Task", "Began", "Took", "Cost", "State", "Outcome", ""], label: "Attempts" },
      [...found.attempts].reverse().map((one) => h(Attempt, { key: one.generation, one, now: found.seen })),
    ),
  );

const costOf = (cost) => {
  if (!cost) return "–";
  const requests = cost.driver_requests > 0 && many(cost.driver_requests, "request");
  return [`${span(cost.core_seconds * 1000)} of core time`, `${bytes(cost.read_bytes)} read`, `${bytes(cost.written_bytes)} written`, requests].filter(Boolean).join(", ");
};

const Attempt = ({ one, now }) => {
  const began = one.started ?? one.drawn;
  const end = one.ended ?? (one.life === "running" ? now : one.seen);
  const ok = one.outcome === "OK";
  return h(
    Table.Row,
    null,
    h(Table.Cell, null, one.generation),
    h(Table.Cell, null, one.task, one.by && h(Muted, { display: "block", fontSize: "xs", overflowWrap: "anywhere" }, `by ${one.by}`, one.why && `: ${one.why}`)),
    h(Table.Cell, { whiteSpace: "nowrap" }, clock(began)),
    h(Table.Cell, { whiteSpace: "nowrap" }, began != null && end != null ? span(end - began) : "–"),
    h(Table.Cell, { minW: one.cost && "220px" }, costOf(one.cost)),
    h(Table.Cell, null, h(Badge, { colorPalette: LIVES[one.life] ?? "gray" }, one.life)),
    h(Table.Cell, { minW: "200px" }, one.outcome && h(Badge, { colorPalette: ok ? "green" : "red" }, one.outcome), one.message && h(Muted, { display: "block", fontSize: "xs", overflowWrap: "anywhere" }, one.message)),
    h(
      Table.Cell,
      { whiteSpace: "nowrap" },
      h(
        Flex,
        { gap: 3 },
        one.run_id && h(Link, { to: `${taskAddress(one)}?try_number=${one.try_number ?? 1}` }, one.try_number > 1 ? `log of try ${one.try_number}` : "log"),
        /^https?:\/\//.test(one.ui ?? "") && h(Text, { as: "a", href: one.ui, target: "_blank", rel: "noreferrer", color: "fg.info", textDecoration: "underline" }, "Spark"),
      ),
    ),
  );
};

const argumentsOf = (one) =>
  [
    one.rate != null && `${count(one.rate)} rows/s`,
    one.byte_rate != null && `${count(one.byte_rate)} bytes/s`,
    one.until != null && `until ${clock(one.until)}`,
    one.drop && "deletes the target",
  ]
    .filter(Boolean)
    .join(", ");

// Commands, and the answers that Airflow has for the build's approvals.
const ordersOf = ({ commands, run }) => {
  const orders = [...commands].reverse();
  for (const { answer, task_id: via, ...one } of run?.answered ?? []) {
    const older = orders.findIndex((other) => other.at <= one.at);
    orders.splice(older < 0 ? orders.length : older, 0, { ...one, verb: answer.toLowerCase(), via: `task ${via}`, acknowledged: true });
  }
  return orders;
};

const Orders = ({ found }) => {
  const orders = ordersOf(found);
  return h(
    Panel,
    { title: "Log of commands", note: "newest first" },
    orders.length === 0
      ? h(Muted, null, "No commands yet.")
      : h(
          Columns,
          { names: ["#", "Command", "By", "When", "Why", "Acknowledged"], label: "Log of commands" },
          orders.map((one) =>
            h(
              Table.Row,
              { key: one.number ?? one.via },
              h(Table.Cell, null, one.number ?? "–"),
              h(Table.Cell, { whiteSpace: "nowrap" }, h("strong", null, one.verb), " ", h(Muted, null, argumentsOf(one))),
              h(Table.Cell, null, one.by ?? "–", one.via && h(Muted, { fontSize: "xs", display: "block" }, one.via.replace(/^page\/.*/, "page"))),
              h(Table.Cell, { whiteSpace: "nowrap" }, clock(one.at)),
              h(Table.Cell, { minW: "160px", overflowWrap: "anywhere" }, one.why ?? "–"),
              h(
                Table.Cell,
                null,
                one.acknowledged
                  ? h(Badge, { colorPalette: "green" }, one.version == null ? "yes" : `in version ${one.version}`)
                  : h(Badge, { colorPalette: "orange" }, "waiting for a barrier"),
              ),
            ),
          ),
        ),
  );
};
