// Asks the API, once or again and again: sooner while things change, later after errors, never while nobody looks.

import { React } from "./elements.js";

const ROOT = new URL("..", import.meta.url);
const SITE = new URL("..", ROOT);
const MOST_MS = 60_000;
// Longer than the API waits for its slowest store.
const PATIENCE_MS = 30_000;

class Refused extends Error {
  constructor(status, said) {
    super(said.message ?? said.detail ?? `the server answered ${status}`);
    this.status = status;
    this.code = said.code ?? `HTTP ${status}`;
    this.way_out = status === 401 ? "You are signed out. Reload the page to sign in." : said.way_out;
  }
}

const asked = async (url, options) => {
  const answer = await fetch(url, { credentials: "same-origin", ...options });
  const text = await answer.text();
  let said;
  try {
    said = JSON.parse(text);
  } catch {
    said = { message: `the server answered ${answer.status}` };
  }
  if (!answer.ok) {
    if (typeof said.detail === "object") said = { message: JSON.stringify(said.detail) };
    throw new Refused(answer.status, said);
  }
  return said;
};

const sent = (method, url, body) =>
  asked(url, { method, headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });

export const path = (...parts) => parts.map(encodeURIComponent).join("/");
export const get = (where, options) => asked(new URL(where, ROOT), options);

// An order whose answer is lost keeps its id, so that whoever orders it again does not order it twice.
const unanswered = new Map();
const newId = () => Array.from(crypto.getRandomValues(new Uint32Array(4)), (n) => n.toString(16).padStart(8, "0")).join("");

export const post = async (where, body) => {
  const order = JSON.stringify([where, body]);
  if (!unanswered.has(order)) unanswered.set(order, newId());
  const forget = () => unanswered.delete(order);
  try {
    const done = await sent("POST", new URL(where, ROOT), { ...body, id: unanswered.get(order) });
    forget();
    return done;
  } catch (error) {
    if (error instanceof Refused && error.status < 500) forget();
    throw error;
  }
};

// Airflow's own API, with Airflow's own permissions and audit log.
export const airflow = (method, where, body) => sent(method, new URL(`api/v2/${where}`, SITE), body);

// The latest answer from `where`, the error of the last question, and a function that asks at once.
export const useLive = (where, everyMs) => {
  const [found, setFound] = React.useState({ where, answer: null, error: null, at: null });
  const again = React.useRef(() => {});
  React.useEffect(() => {
    let timer;
    let failures = 0;
    let stopped = false;
    let running = null;
    const later = () => {
      clearTimeout(timer);
      if (!stopped && !document.hidden) timer = setTimeout(look, Math.min(everyMs * 2 ** failures, MOST_MS));
    };
    const look = async () => {
      clearTimeout(timer);
      running?.abort();
      const mine = (running = new AbortController());
      const patience = setTimeout(() => mine.abort(new Error("the server does not answer")), PATIENCE_MS);
      try {
        const answer = await get(where, { signal: mine.signal });
        failures = 0;
        if (!stopped) setFound({ where, answer, error: null, at: Date.now() });
      } catch (error) {
        if (stopped || running !== mine) return;
        failures += 1;
        setFound((before) => ({ ...before, where, answer: before.where === where ? before.answer : null, error }));
      } finally {
        clearTimeout(patience);
      }
      later();
    };
    const seen = () => (document.hidden ? clearTimeout(timer) : look());
    again.current = look;
    document.addEventListener("visibilitychange", seen);
    look();
    return () => {
      stopped = true;
      clearTimeout(timer);
      running?.abort();
      document.removeEventListener("visibilitychange", seen);
    };
  }, [where, everyMs]);
  const fresh = found.where === where ? found : { answer: null, error: null, at: null };
  return { ...fresh, again: () => again.current() };
};
