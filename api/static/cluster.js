// The cluster: its instances and what each holds, how far behind copies are, where the stream runs. Asked every few
// seconds; behind a load balancer each answer may be another instance's, so what one says of itself is kept.

import { ask, askJson, isExpected, pause, textOf } from "./ask.js";
import { address, byId, duration, make, number, plural, say } from "./show.js";

const EVERY_MS = 3_000;
const KEPT_MS = 30_000;
const SAMPLE = /^(leaderboard_\w+)(?:\{([^}]*)\})? (\S+)/;
const LABEL = /(\w+)="([^"]*)"/g;

export class Cluster {
  hosts = [];
  #said = new Map(); // address → what the instance said of itself
  #answeredMs = null;
  #eventsMetric;
  #eventsText;

  /** `eventsMetric` counts what the stream has read, `eventsText` says so. */
  constructor(eventsMetric = "leaderboard_source_records_total", eventsText = "Records read") {
    this.#eventsMetric = eventsMetric;
    this.#eventsText = eventsText;
  }

  /** Ask until `signal`, while `may` allows it; `done` is called after each time. */
  async run(signal, may, done) {
    while (!signal.aborted) {
      if (may()) {
        await this.#look(signal).catch((error) => {
          if (!isExpected(error)) throw error;
        });
        this.#show();
        done();
      }
      await pause(EVERY_MS, signal);
    }
  }

  async #look(signal) {
    const limited = AbortSignal.any([signal, AbortSignal.timeout(10_000)]);
    this.hosts = await askJson("hosts", { signal: limited });
    this.#answeredMs = performance.now();
    const metrics = readMetrics(await textOf(await ask("metrics", { signal: limited })), this.#eventsMetric);
    const who = whose(metrics, this.hosts);
    if (who) this.#said.set(who, { ...metrics, atMs: performance.now() });
  }

  #saidBy(host) {
    const said = this.#said.get(address(host));
    return said && performance.now() - said.atMs < KEPT_MS ? said : null;
  }

  #show() {
    const running = this.hosts.find((host) => host.runsStream);
    const stream = running && this.#saidBy(running);
    say(byId("cluster-lead"), this.#lead());
    const behind = this.hosts.map((host) => this.#saidBy(host)).filter(Boolean).map(({ lags }) => Math.max(0, ...lags.values()));
    const facts = [
      ["Instances", number(this.hosts.length)],
      ["Partitions", number(partitionsOf(this.hosts).size)],
      ["Stream", running ? (stream?.state ?? "runs") : "nobody runs it", running ? address(running) : ""],
      [this.#eventsText, stream?.events === undefined ? "–" : number(stream.events)],
      ["Furthest behind", behind.length ? plural(Math.max(...behind), "record") : "–"],
    ];
    byId("cluster-facts").replaceChildren(
      ...facts.map(([name, text, note = ""]) => make("div", {}, make("dt", {}, name), make("dd", {}, text, make("small", {}, note)))),
    );
    byId("instances-rows").replaceChildren(...this.hosts.map((host) => this.#row(host)));
    const old = this.#ageMs() > 3 * EVERY_MS ? `, ${duration(this.#ageMs())} ago` : "";
    const where = running ? `, stream at ${address(running)}` : ", no stream";
    say(byId("cluster-brief"), this.hosts.length ? `${plural(this.hosts.length, "instance")}${where}${old}` : "");
  }

  #ageMs() {
    return this.#answeredMs === null ? 0 : performance.now() - this.#answeredMs;
  }

  #lead() {
    if (!this.hosts.length) return "No instance has a task yet.";
    if (this.#ageMs() > 3 * EVERY_MS) return `Nobody has answered for ${duration(this.#ageMs())}. This is how it was then.`;
    const active = new Set(this.hosts.flatMap((host) => host.active));
    const standby = new Set(this.hosts.flatMap((host) => host.standby));
    const all = [...partitionsOf(this.hosts)].sort((a, b) => a - b);
    const unanswered = all.filter((each) => !active.has(each));
    const single = all.filter((each) => !standby.has(each));
    if (unanswered.length) return `Nobody is active for partition ${unanswered.join(", ")}; warm copies answer meanwhile.`;
    if (!single.length) return "Every partition is answered for and has a warm copy: any one instance may be lost.";
    if (this.hosts.length === 1) return "One instance answers for every partition. A second one would keep warm copies.";
    return `Partition ${single.join(", ")} has no warm copy now.`;
  }

  #row(host) {
    const said = this.#saidBy(host);
    const notes = [];
    if (address(host) === location.host) notes.push("this page");
    if (said && !said.ready) notes.push("not ready");
    const name = make("th", { scope: "row" }, address(host));
    if (notes.length) name.append(" ", make("span", { className: "note" }, notes.join(", ")));
    return make(
      "tr",
      {},
      name,
      make("td", {}, chips(host.active, "active")),
      make("td", {}, chips(host.standby, "standby")),
      make("td", {}, said ? plural(Math.max(0, ...said.lags.values()), "record") : "–"),
      make("td", {}, streamOf(host, said)),
    );
  }
}

const partitionsOf = (hosts) => new Set(hosts.flatMap((host) => [...host.active, ...host.standby]));

function streamOf(host, said) {
  if (host.runsStream) return make("span", { className: "note stream" }, said?.state ?? "runs");
  return host.streamStandby ? make("span", { className: "note" }, "standby") : "–";
}

function chips(partitions, kind) {
  if (!partitions.length) return "–";
  const items = partitions.map((each) => make("li", { className: `chip ${kind}` }, String(each)));
  return make("ul", { className: "chips", role: "list" }, ...items);
}

/** Return what an instance says of itself, from Prometheus text. */
function readMetrics(text, eventsMetric) {
  const found = { lags: new Map(), active: new Set(), ready: true, state: undefined, events: undefined };
  for (const line of text.split("\n")) {
    const [, name, inBraces, value] = SAMPLE.exec(line) ?? [];
    const labels = Object.fromEntries(Array.from((inBraces ?? "").matchAll(LABEL), ([, key, of]) => [key, of]));
    if (name === "leaderboard_store_lag_records") found.lags.set(`${labels.store} ${labels.partition}`, Number(value));
    else if (name === "leaderboard_store_role" && labels.role === "active" && Number(value)) found.active.add(labels.partition);
    else if (name === "leaderboard_ready") found.ready = Number(value) === 1;
    else if (name === "leaderboard_stream_state" && Number(value)) found.state = labels.state.replace("_", " ");
    else if (name === eventsMetric) found.events = Number(value);
  }
  return found;
}

/** Return the address of who has answered: partitions have one active instance each. */
function whose({ active }, hosts) {
  if (hosts.length === 1) return address(hosts[0]);
  const same = hosts.find((host) => host.active.length && host.active.some((each) => active.has(String(each))));
  return same && address(same);
}
