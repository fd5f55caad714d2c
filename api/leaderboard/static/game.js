// One game: its podium and all places, live, and which instances answer for it.

import { askJson, keepTrying, readEvents } from "./ask.js";
import { Frames, showEntries } from "./entries.js";
import { address, byId, make, number, say } from "./show.js";

const DEPTH = Number(document.querySelector("meta[name=leaderboard-depth]").content);

export class Game {
  #frames = new Frames(() => this.#draw());
  #announcer;
  #id;
  #entries = null;
  #lastEventId;
  #period;

  constructor(announcer, period) {
    this.#announcer = announcer;
    this.#period = period;
  }

  get title() {
    return this.#entries?.length ? this.#entries[0].gameName : `Game ${this.#id}`;
  }

  /** Begin with another game; `name` when it is known already. */
  open(id, name) {
    this.#id = id;
    this.#entries = null;
    this.#lastEventId = undefined;
    byId("podium").replaceChildren();
    byId("places-rows").replaceChildren();
    byId("places").hidden = true;
    byId("game-empty").hidden = true;
    say(byId("game-where"), "");
    say(byId("game-title"), name ?? `Game ${id}`);
  }

  /** Show what comes until `signal`. */
  run(signal, tell) {
    const path = `leaderboard/${this.#id}/events?limit=${DEPTH}${this.#period.query}`;
    const told = (name, data, id) => {
      this.#lastEventId = id ?? this.#lastEventId;
      if (name === "board") this.#put(data);
      else if (name === "gone") this.#put([]);
    };
    return keepTrying(
      signal,
      (live) => readEvents(path, { signal, lastEventId: this.#lastEventId, opened: live, told }),
      tell,
    );
  }

  hold(held) {
    this.#frames.hold(held);
    if (held) this.#announcer.clear();
  }

  /** Show who holds the board of all time; those of periods are another store, which may be elsewhere. */
  async locate(signal) {
    const id = this.#id;
    if (this.#period.query) return say(byId("game-where"), "");
    const { partition, active, standbys } = await askJson(`hosts/${id}`, { signal });
    if (id !== this.#id) return;
    const answering = active ? `answered by ${address(active)}` : "nobody answers for it";
    const warm = standbys.length ? `, warm at ${standbys.map(address).join(", ")}` : "";
    say(byId("game-where"), `Game ${id} is in partition ${partition}: ${answering}${warm}`);
  }

  /** Show why there is nothing to show. */
  explain(text) {
    say(byId("game-empty"), text);
    byId("game-empty").hidden = false;
  }

  #put(entries) {
    if (this.#entries?.length && entries.length) {
      const [{ playerName, score, gameName }] = entries;
      this.#announcer.changed(gameName, `${gameName} has changed. First is ${playerName} with ${number(score)}.`);
    }
    this.#entries = entries;
    this.#frames.add("board");
  }

  #draw() {
    const entries = this.#entries;
    if (!entries) return;
    byId("game-empty").hidden = true;
    if (!entries.length) this.explain(`This game has no score of a known player${this.#period.text || " yet"}. The first one shows here the moment it arrives.`);
    if (entries.length) say(byId("game-title"), this.title);
    document.title = `${this.title} · Leaderboard`;
    byId("places").hidden = !entries.length;
    byId("podium").hidden = !entries.length;
    showEntries(byId("podium"), entries.slice(0, 3), { makeRow: makeStep, fillRow: fillStep, moving: true });
    showEntries(byId("places-rows"), entries, { makeRow, fillRow, moving: true });
  }
}

function makeStep() {
  return make(
    "li",
    {},
    make("span", { className: "player" }),
    make("span", { className: "step" }, make("span", { className: "medal" }), make("span", { className: "score" })),
  );
}

function fillStep(step, entry, place) {
  step.dataset.place = place;
  say(step.querySelector(".player"), entry.playerName);
  say(step.querySelector(".medal"), String(place));
  say(step.querySelector(".score"), number(entry.score));
}

function makeRow() {
  const place = make("td", {}, make("span", { className: "medal" }));
  return make("tr", {}, place, make("th", { scope: "row" }), make("td", { className: "number" }));
}

function fillRow(row, entry, place) {
  row.dataset.place = place;
  say(row.querySelector(".medal"), String(place));
  say(row.children[1], entry.playerName);
  say(row.children[2], number(entry.score));
}
