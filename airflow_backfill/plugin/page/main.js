// The page in Airflow: all builds under Browse, one build as a page, and a tab on DAG runs and task instances.

import { Build } from "./build.js";
import { path, useLive } from "./ask.js";
import { Box, Empty, h, Loading, Router } from "./elements.js";
import { Overview, PAGE, Problem, Rows } from "./overview.js";

// What a person typed may be no part of an address.
const decoded = (part) => {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
};

const Page = () => {
  const { pathname } = Router.useLocation();
  const [dag, key] = pathname.slice(pathname.indexOf(PAGE) + PAGE.length).split("/").filter(Boolean).map(decoded);
  return key ? h(Build, { key: `${dag} ${key}`, dag, build: key, whole: true }) : h(Overview);
};

const Tab = ({ dagId, runId, taskId, mapIndex }) => {
  const run = path("dags", dagId, "runs", runId);
  const { answer, error, at } = useLive(taskId ? `${run}/${path("tasks", taskId, mapIndex ?? "-1")}/builds` : `${run}/builds`, 15_000);
  if (!answer) return error ? h(Box, { p: 4 }, h(Problem, { error })) : h(Loading);
  const builds = answer.builds;
  if (builds.length !== 1)
    return h(
      Box,
      { p: 4, display: "grid", gap: 3 },
      error && h(Problem, { error, since: at }),
      builds.length > 1
        ? h(Rows, { builds })
        : h(Empty, { title: "No table backfill" }, `This ${taskId ? "task" : "run"} works on no table backfill, or has not started yet.`),
    );
  return h(Build, { key: builds[0].key, dag: builds[0].dag_id, build: builds[0].key });
};

globalThis["Table backfills"] = (props) => (props.runId ? h(Tab, props) : h(Page));
