// Numbers, times and places as people read them.

export const count = (n) => (n == null ? "–" : Math.round(n).toLocaleString());

const SHORT = [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]];

export const short = (n) => {
  if (n == null) return "–";
  if (n < 10 && n % 1) return n.toFixed(1);
  const [unit, name] = SHORT.find(([unit]) => n >= unit) ?? [1, ""];
  const value = n / unit;
  return `${value >= 100 || unit === 1 ? Math.round(value) : value.toFixed(1)}${name && `\u202f${name}`}`;
};

export const bytes = (n) => (n == null ? "–" : `${short(n)}${n < 1000 ? "\u202f" : ""}B`);

export const many = (n, word) => `${count(n)} ${word}${n === 1 ? "" : "s"}`;

export const span = (milliseconds) => {
  if (milliseconds == null) return "–";
  const seconds = Math.max(Math.round(milliseconds / 1000), 0);
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
  const hours = seconds / 3600;
  if (hours < 48) return `${Math.floor(hours)} h ${Math.floor((seconds % 3600) / 60)} min`;
  return `${Math.floor(hours / 24)} d ${Math.floor(hours % 24)} h`;
};

// To the larger of its units, for an axis.
export const about = (milliseconds) => span(milliseconds).split(" ").slice(0, 2).join(" ");

// The time zone that was chosen in Airflow, which keeps it in the browser; else the browser's.
const zone = () => {
  try {
    const timeZone = JSON.parse(globalThis.localStorage.getItem("timezone")) ?? undefined;
    return new Intl.DateTimeFormat(undefined, { timeZone }).resolvedOptions().timeZone;
  } catch {
    return undefined;
  }
};

export const clock = (milliseconds) =>
  milliseconds == null ? "–" : new Date(milliseconds).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "medium", timeZone: zone() });

export const hour = (milliseconds) => new Date(milliseconds).toLocaleTimeString(undefined, { timeZone: zone() });

// The moment of a date and time in that zone, as an input field has it: 2026-01-31T22:30.
export const instant = (text) => {
  const wall = Date.parse(`${text}Z`);
  const shown = (at) => Date.parse(`${new Date(at).toLocaleString("sv-SE", { timeZone: zone() }).replace(" ", "T")}Z`);
  // Twice: the first guess may lie on the other side of a change to summer time.
  return [0, 0].reduce((at) => at + wall - shown(at), wall);
};

export const ago = (milliseconds, now = Date.now()) => (milliseconds == null ? "–" : `${span(now - milliseconds)} ago`);

export const PHASES = ["snapshot", "consume_log", "catch_up", "finished", "upstream"];

export const phase = (name) => (name ?? "unknown").replaceAll("_", " ");

export const tail = (target) => target.replace(/\/+$/, "").split("/").pop();

// How a key differs.
export const KINDS = { missing: "missing in the target", extra: "only in the target", stale: "with other values" };

export const errorOf = (error) => (error.code ? `${error.code}: ${error.message}` : error.message);
