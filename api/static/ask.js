// Asks the service, on this origin only: JSON, and answers that go on. A token is kept in this tab.

const TOKEN = "leaderboard.token";
const FIRST_WAIT_MS = 500;
const MOST_WAIT_MS = 5_000;
const REFUSED_WAIT_MS = 60_000;
const SILENT_MS = 40_000; // A sign of life comes every 15 s.

/** The service refuses: `status` and what it says to do. */
class Refusal extends Error {
  constructor(status, detail) {
    super(detail);
    this.status = status;
  }

  /** Whether asking again cannot help. */
  get final() {
    return this.status >= 400 && this.status < 500 && this.status !== 401 && this.status !== 429;
  }
}

/** Nobody has answered, or the answer broke off, or something else than the service is there. */
class Unreached extends Error {}

/** Return what work brings; that it brings nothing is the network's doing. */
export async function reached(work) {
  try {
    return await work;
  } catch (error) {
    throw new Unreached(error.message, { cause: error });
  }
}

/** Return whether an error is of what is asked, and not a defect of the page. */
export const isExpected = (error) => error instanceof Refusal || error instanceof Unreached;

export const token = {
  get: () => sessionStorage.getItem(TOKEN),
  set: (text) => sessionStorage.setItem(TOKEN, text),
  forget: () => sessionStorage.removeItem(TOKEN),
};

/** Return an answer; throws a Refusal when it is not 2xx. */
export async function ask(path, { signal, headers = {} } = {}) {
  const given = token.get();
  const own = given ? { ...headers, Authorization: `Bearer ${given}` } : headers;
  // Caches may keep an answer for a while: what is shown as live is asked for again, with the entity tag.
  const response = await reached(fetch(path, { signal, headers: own, credentials: "same-origin", cache: "no-cache" }));
  if (response.ok) return response;
  throw new Refusal(response.status, await detailOf(response));
}

async function detailOf(response) {
  try {
    return (await response.json()).detail ?? `the answer is ${response.status}`;
  } catch {
    return `the answer is ${response.status}`; // Of something in between, which knows no problem+json.
  }
}

const asText = new Set();
let numbers = /$^/;

/** Have numbers in fields of these names read as text: 64-bit integers and decimals have more digits than JavaScript's numbers. */
export function readAsText(...names) {
  for (const name of names) asText.add(name);
  const escaped = Array.from(asText, (name) => JSON.stringify(name).slice(1, -1).replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
  if (escaped.length) numbers = new RegExp(`([{,])"(${escaped.join("|")})":(-?\\d+(?:\\.\\d+)?(?:[eE][-+]?\\d+)?)(?=[,}])`, "g");
}

/** Return what JSON says, with these numbers as text. */
const parse = (text) => JSON.parse(text.replace(numbers, '$1"$2":"$3"'));

/** Return the body of an answer as text. */
export const textOf = (response) => reached(response.text());

/** Return the body of an answer, with numbers as text where they are read so. */
export async function jsonOf(response) {
  const text = await textOf(response);
  return reached((async () => parse(text))());
}

export const askJson = async (path, options) => jsonOf(await ask(path, options));

/** Read server-sent events until the answer ends; `told` gets (name, data, id). */
export async function readEvents(path, { signal, lastEventId, opened, told }) {
  const own = new AbortController();
  const stop = () => own.abort(signal.reason);
  signal.addEventListener("abort", stop, { once: true });
  let watch;
  // A connection that a dead host has left open says nothing at all.
  const alive = () => {
    clearTimeout(watch);
    watch = setTimeout(() => own.abort(new Error("the connection is silent")), SILENT_MS);
  };
  try {
    alive();
    const headers = lastEventId ? { "Last-Event-ID": lastEventId } : {};
    const response = await ask(path, { signal: own.signal, headers });
    opened();
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let text = "";
    for (;;) {
      const { done, value } = await reached(reader.read());
      if (done) return;
      alive();
      const blocks = (text + value).split("\n\n");
      text = blocks.pop();
      opened();
      for (const block of blocks) tellOf(block, told);
    }
  } finally {
    clearTimeout(watch);
    signal.removeEventListener("abort", stop);
    own.abort();
  }
}

function tellOf(block, told) {
  const fields = {};
  for (const line of block.split("\n")) {
    const at = line.indexOf(":");
    if (at > 0) fields[line.slice(0, at)] = line.slice(at + 1).replace(/^ /, "");
  }
  if (fields.data !== undefined) told(fields.event ?? "message", parse(fields.data), fields.id);
}

/**
 * Attempt something again and again until `signal`. `tell` gets "live", "lost", "refused" or "final", and a Refusal.
 * An attempt that ends without an error is begun again as well: instances end streams when they stop.
 */
export async function keepTrying(signal, attempt, tell) {
  let waitMs = FIRST_WAIT_MS;
  const live = () => {
    waitMs = FIRST_WAIT_MS;
    tell("live");
  };
  while (!signal.aborted) {
    try {
      await attempt(live);
      if (!signal.aborted) tell("lost");
    } catch (error) {
      if (!isExpected(error)) throw error;
      if (signal.aborted) return;
      if (error instanceof Refusal && error.final) return tell("final", error);
      const refused = error instanceof Refusal && error.status === 401;
      tell(refused ? "refused" : "lost", error instanceof Refusal ? error : undefined);
      if (refused) waitMs = REFUSED_WAIT_MS;
    }
    await pause(waitMs * (0.75 + Math.random() / 2), signal);
    waitMs = Math.min(waitMs * 2, MOST_WAIT_MS);
  }
}

/** Return after a time, or at once when `signal` says so or the network is back. */
export function pause(ms, signal) {
  return new Promise((resolve) => {
    const done = () => {
      clearTimeout(timer);
      signal.removeEventListener("abort", done);
      removeEventListener("online", done);
      resolve();
    };
    const timer = setTimeout(done, ms);
    signal.addEventListener("abort", done);
    addEventListener("online", done);
  });
}
