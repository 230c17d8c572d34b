// The commands of a build: buttons, and a form for those that take something.

import { airflow, path, post } from "./ask.js";
import { Box, Button, Flex, h, Input, Muted, Notice, Panel, React, Text } from "./elements.js";
import { errorOf, instant, many, span } from "./say.js";

const say = (verb, text, more = {}) => ({ verb, text, ...more });

const EXPLAIN = say("explain", "Explain a row …", { form: "explain", spark: true, optional: true, note: "Compares one row in source and target and explains its values. Writes nothing to the target. The answer appears on this page, for people who may command the build." });

// Those that would undo what is in force stand in for those that would do it again. What can never help here is left out.
const offered = ({ in_force: force, phase, refused, difference }) =>
  [
    force?.paused ? say("resume", "Resume") : say("pause", "Pause"),
    say("throttle", "Throttle …", { form: "throttle" }),
    force?.held ? say("release", "Release the gate") : say("hold", "Hold the gate"),
    say("prove", "Prove again …", { form: "why", spark: true, optional: true, note: "Compares the target with its source at the target's current epoch. Writes nothing." }),
    EXPLAIN,
    difference && say("repair", "Repair …", { form: "why", spark: true, hue: "red", note: "Rewrites exactly the keys that differ so that they equal the source. Clear the verify task afterwards." }),
    !refused?.skip && say("skip", "Skip lost records …", { form: "why", note: "The build counts the records that Kafka and the landing table have lost, and goes on without them. This cannot be undone." }),
    !refused?.["dead-letter"] && !force?.dead_letters && say("dead-letter", "Dead letters …", { form: "why", note: "From now on records that cannot be decoded go to a table beside the target, and no longer stop the build. This cannot be undone." }),
    say("cancel", "Cancel …", { form: "cancel", hue: "red", note: "Ends the build; a later plan resumes it." }),
  ].filter((one) => one && (phase !== "planning" || one.verb === "cancel"));

// A build whose records cannot be read takes only these.
const LAST_RESORT = [
  say("recover", "Recover …", { form: "recover", spark: true, hue: "red", note: "First RESTORE the target to the version that the error names. The build then goes on from there: clear the failed task. If the version is lost, name the epoch of the source that the rows equal, and clear the failed task and the tasks after it (if it is the follower: verify and finish first)." }),
  say("cancel", "Cancel …", { form: "cancel", hue: "red", note: "Ends a build whose records cannot be read, if the target is deleted too." }),
];
const RECOVERABLE = ["RECORD_INVALID", "TARGET_DIVERGED"];

// Why an errand cannot be ordered now.
export const hindrance = (found, verb) => found.refused?.[verb] ?? (found.steering ? undefined : NO_STEERING);

// `row`: the values of a key that was chosen elsewhere, to explain.
export const Commands = ({ found, where, again, row }) => {
  const [open, setOpen] = React.useState(null);
  const [busy, setBusy] = React.useState(null);
  const [told, setTold] = React.useState(null);
  React.useEffect(() => {
    if (row) setOpen({ ...EXPLAIN, row });
  }, [row]);
  if (!found.may_command) return h(Muted, null, "You may view this build but not command it: commands need the permission to edit task instances of its DAG.");
  const asked = async (name, work, saying = (error) => error.message) => {
    setBusy(name);
    setTold(null);
    try {
      setTold({ hue: "green", text: await work() });
      again();
    } catch (error) {
      setTold({ hue: "red", text: saying(error) });
    }
    setBusy(null);
  };
  const order = (verb, body = {}) =>
    asked(
      verb,
      async () => {
        const done = await post(`${where}/commands`, { verb, ...body });
        setOpen(null);
        if (done.run) return `${verb}: run ${done.run.run_id} of DAG ${done.run.dag_id} carries it out.`;
        const kept = body.drop ? " Nothing is deleted before a cancel task runs, or table-backfill cancel TARGET --drop." : "";
        return `${verb} is command ${done.number}; it takes effect at the next barrier.${kept}`;
      },
      errorOf,
    );
  const refused = found.refused ?? {};
  const lost = !found.phase;
  if (lost && !RECOVERABLE.includes(found.trouble?.code)) return null;
  const shown = lost ? LAST_RESORT : offered(found);
  const why = (one) => (one.spark ? hindrance(found, one.verb) : refused[one.verb]);
  const failed = found.run?.run_id ? [found.run.failed, unfinished(found)].find((tasks) => tasks.length) ?? [] : [];
  return h(
    Panel,
    { title: "Commands" },
    (found.run?.asked ?? []).map((task) => h(Approval, { key: task.task_id, task, found, asked, busy })),
    h(
      Flex,
      { gap: 2, wrap: "wrap" },
      failed.length > 0 &&
        h(
          Button,
          { size: "sm", colorPalette: "blue", disabled: busy != null, loading: busy === "clear", onClick: () => asked("clear", () => clear(failed)), ...WRAPS },
          `Clear ${namesOf(failed)}`,
        ),
      shown.map((one) =>
        h(
          Button,
          {
            key: one.verb,
            size: "sm",
            variant: open?.verb === one.verb ? "solid" : "outline",
            colorPalette: one.hue ?? "gray",
            disabled: Boolean(why(one)) || busy != null,
            title: why(one),
            loading: busy === one.verb,
            "aria-expanded": one.form ? open?.verb === one.verb : undefined,
            onClick: () => (one.form ? setOpen(open?.verb === one.verb ? null : one) : order(one.verb)),
          },
          one.text,
        ),
      ),
    ),
    open && h(Form, { key: `${open.verb} ${open.row}`, command: open, columns: found.key ?? [], order, close: () => setOpen(null), busy }),
    told && h(Box, { mt: 3 }, h(Notice, { hue: told.hue, live: told.hue === "red" ? "alert" : "status" }, h(Text, { fontSize: "sm" }, told.text))),
  );
};

// Tasks to clear although none has failed: one has died, or a recovery or repair is done and no task runs.
const MENDS = ["recover", "repair"];
const unfinished = ({ health, attempts, to_clear: tasks }) => (health?.condition === "stuck" || MENDS.includes(attempts?.at(-1)?.task) ? (tasks ?? []) : []);

// A button that names tasks, whose names may be longer than a phone is wide.
const WRAPS = { maxW: "100%", h: "auto", minH: "9", py: 1, whiteSpace: "normal", overflowWrap: "anywhere" };

const NO_STEERING = "This needs Spark: add a DAG like dags/steer.py, or ask for permission to trigger it.";

const namesOf = (tasks) => tasks.map((task) => task.task_id).join(", ");

const clear = async (tasks) => {
  await airflow("POST", `${path("dags", tasks[0].dag_id)}/clearTaskInstances`, {
    dry_run: false,
    dag_run_id: tasks[0].run_id,
    task_ids: tasks.map((task) => (task.map_index < 0 ? task.task_id : [task.task_id, task.map_index])),
    include_downstream: true,
    only_failed: tasks.every((task) => task.state === "failed"),
  });
  return `Airflow runs ${namesOf(tasks)} again, from the last commit.`;
};

// The answer goes to Airflow, which knows whom it has asked.
const Approval = ({ task, found, asked, busy }) => {
  const [why, setWhy] = React.useState("");
  const where = `${path("dags", task.dag_id, "dagRuns", task.run_id, "taskInstances", task.task_id, task.map_index)}/hitlDetails`;
  const answer = (option) =>
    asked(option, async () => {
      await airflow("PATCH", where, { chosen_options: [option], params_input: why.trim() ? { why: why.trim() } : {} });
      return `Airflow has received your answer: ${option}.`;
    });
  return h(
    Box,
    { mb: 3 },
    h(
      Notice,
      { hue: "blue", title: task.subject },
      h(Text, { fontSize: "sm", mb: 2 }, found.lag ? `Pending: ${many(found.lag.epochs, "epoch")}${found.lag.epochs ? `, the oldest for ${span(found.lag.age)}` : ""}. The target is at epoch ${found.epoch ?? "–"}.` : "The number of pending epochs is unknown."),
      task.takes_why && h(Flex, { mb: 2 }, h(Field, { label: "Reason for your answer", help: "shown in the log of commands" }, h(Input, { size: "sm", maxLength: 1000, value: why, onChange: (event) => setWhy(event.target.value) }))),
      h(
        Flex,
        { gap: 2 },
        task.options.map((option, n) => h(Button, { key: option, size: "sm", variant: n ? "outline" : "solid", colorPalette: n ? "gray" : "blue", disabled: busy != null, loading: busy === option, onClick: () => answer(option) }, option)),
      ),
    ),
  );
};

const Field = ({ label, help, children }) =>
  h(Box, { as: "label", display: "block", minW: "180px", flex: "1 1 180px" }, h(Text, { fontSize: "sm", mb: 1 }, label), children, help && h(Muted, { fontSize: "xs" }, help));

const whole = (text) => (text.trim() === "" ? null : Number(text));

const Form = ({ command, columns, order, close, busy }) => {
  const [given, setGiven] = React.useState({ rate: "", bytes: "", until: "", why: "", epoch: "", drop: false });
  const [values, setValues] = React.useState(() => Object.fromEntries((command.row ?? []).map((value, n) => [columns[n], value])));
  const first = React.useRef(null);
  React.useEffect(() => first.current?.focus(), []);
  const set = (name) => (event) => setGiven({ ...given, [name]: event.target.type === "checkbox" ? event.target.checked : event.target.value });
  const needsWhy = command.form === "cancel" ? given.drop : command.form !== "throttle" && !command.optional;
  const body = () => ({
    ...(given.why.trim() && { why: given.why.trim() }),
    ...(command.form === "throttle" && {
      rate: whole(given.rate),
      byte_rate: whole(given.bytes),
      ...(given.until && { until: instant(given.until) }),
    }),
    ...(command.form === "cancel" && { drop: given.drop }),
    ...(command.form === "recover" && { epoch: whole(given.epoch) }),
    ...(command.form === "explain" && { key: columns.map((column) => `${column}=${values[column] ?? ""}`) }),
  });
  return h(
    Box,
    {
      as: "form",
      mt: 3,
      display: "flex",
      flexDirection: "column",
      gap: 3,
      onSubmit: (event) => {
        event.preventDefault();
        order(command.verb, body());
      },
      onKeyDown: (event) => event.key === "Escape" && close(),
    },
    command.note && h(Muted, null, command.note),
    command.form === "throttle" &&
      h(
        Flex,
        { gap: 3, wrap: "wrap" },
        h(Field, { label: "Rows per second", help: "empty: no limit; 0: pause" }, h(Input, { ref: first, type: "number", min: 0, step: 1, size: "sm", value: given.rate, onChange: set("rate") })),
        h(Field, { label: "Snapshot bytes per second", help: "empty: no limit" }, h(Input, { type: "number", min: 0, step: 1, size: "sm", value: given.bytes, onChange: set("bytes") })),
        h(Field, { label: "Until", help: "empty: until the next throttle" }, h(Input, { type: "datetime-local", size: "sm", value: given.until, onChange: set("until") })),
      ),
    command.form === "cancel" &&
      h(
        Flex,
        { as: "label", gap: 2, align: "center" },
        h("input", { type: "checkbox", checked: given.drop, onChange: set("drop"), ref: first }),
        h(Text, { fontSize: "sm" }, "Also delete the target and the build's files beside it"),
      ),
    command.form === "recover" &&
      h(Flex, null, h(Field, { label: "Epoch", help: "empty after a RESTORE; else the source's, which the rows equal" }, h(Input, { ref: first, type: "number", min: 0, step: 1, size: "sm", value: given.epoch, onChange: set("epoch") }))),
    command.form === "explain" &&
      h(
        Flex,
        { gap: 3, wrap: "wrap" },
        columns.map((column, n) =>
          h(Field, { key: column, label: column, help: "key column" }, h(Input, { ref: n ? undefined : first, size: "sm", maxLength: 1000, required: true, value: values[column] ?? "", onChange: (event) => setValues({ ...values, [column]: event.target.value }) })),
        ),
      ),
    h(Flex, null, h(
      Field,
      { label: needsWhy ? "Why (required)" : "Why", help: "shown in the log of commands" },
      h(Input, { ref: command.form === "why" ? first : undefined, size: "sm", maxLength: 1000, required: needsWhy, value: given.why, onChange: set("why") }),
    )),
    h(
      Flex,
      { gap: 2 },
      h(Button, { type: "submit", size: "sm", colorPalette: command.hue ?? "blue", loading: busy === command.verb }, given.drop ? "Cancel and delete" : command.text.replace(" …", "")),
      h(Button, { type: "button", size: "sm", variant: "ghost", onClick: close }, "Close"),
    ),
  );
};
