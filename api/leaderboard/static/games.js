// All games: a card each, live while there are not too many of them, else a page at a time; found by name or id.

import { ask, askJson, jsonOf, keepTrying, pause, readEvents } from "./ask.js";
import { Frames, showEntries } from "./entries.js";
import { isInteger } from "./names.js";
import { byId, folded, make, number, plural, say } from "./show.js";

const LIVE_MOST = 500; // More boards than that are shown a page at a time.
const PAGE_SIZE = 100;
const PAGE_EVERY_MS = 5_000;

export const linkTo = (id) => `#/game/${id}`;

const byProduct = (a, b) => (BigInt(a) < BigInt(b) ? -1 : 1);

export class Games {
  #boards = new Map();
  #frames = new Frames((id, few) => this.#draw(id, few), () => this.#filter());
  #announcer;
  #again = null; // The ids that have come again since a reset.
  #complete = false;
  #lastEventId;
  #count = 0;
  #paged = false;
  #after = [];
  #turn = new AbortController();
  #period;

  constructor(announcer, period) {
    this.#announcer = announcer;
    this.#period = period;
    byId("search").addEventListener("input", () => this.#filter());
    byId("search-form").addEventListener("submit", (event) => this.#open(event));
    byId("page-first").addEventListener("click", () => this.#turnTo([]));
    byId("page-next").addEventListener("click", () => this.#turnTo([...this.#after, this.#lastId()]));
  }

  get count() {
    return this.#paged ? this.#count : this.#boards.size;
  }

  nameOf(id) {
    return this.#boards.get(id)?.name;
  }

  /** Begin with the boards of another period. */
  begin() {
    this.#after = [];
    this.#forget();
  }

  /** Show what comes until `signal`. */
  run(signal, tell) {
    return keepTrying(signal, (live) => this.#attempt(signal, live), tell);
  }

  hold(held) {
    this.#frames.hold(held);
    if (held) this.#announcer.clear();
  }

  async #attempt(signal, live) {
    await this.#renewCount(signal);
    const paged = this.#count > LIVE_MOST || !this.#period.runs;
    if (paged !== this.#paged) this.#forget();
    this.#paged = paged;
    byId("pages").hidden = !paged;
    await (paged ? this.#pages(signal, live) : this.#live(signal, live));
  }

  #live(signal, live) {
    const told = (name, data, id) => {
      this.#lastEventId = id ?? this.#lastEventId;
      if (name === "reset") this.#again = new Set();
      else if (name === "board") this.#put(data.productId, data.entries);
      else if (name === "gone") this.#remove(data.productId);
      else if (name === "complete") this.#completed();
    };
    const path = `leaderboard/events${this.#period.query.replace("&", "?")}`;
    return readEvents(path, { signal, lastEventId: this.#lastEventId, opened: live, told });
  }

  async #pages(signal, live) {
    while (!signal.aborted) {
      const after = this.#after.at(-1);
      const path = `leaderboard?page_size=${PAGE_SIZE}${after === undefined ? "" : `&after=${after}`}${this.#period.query}`;
      const response = await ask(path, { signal });
      const boards = await jsonOf(response);
      if (after !== this.#after.at(-1)) continue;
      live();
      this.#again = new Set();
      for (const [id, entries] of Object.entries(boards)) this.#put(id, entries);
      this.#completed();
      byId("page-next").disabled = !response.headers.has("link");
      byId("page-first").disabled = after === undefined;
      say(byId("page-text"), `Page ${this.#after.length + 1}, renewed every ${PAGE_EVERY_MS / 1000} seconds`);
      this.#turn = new AbortController();
      await pause(PAGE_EVERY_MS, AbortSignal.any([signal, this.#turn.signal]));
      await this.#renewCount(signal);
    }
  }

  async #renewCount(signal) {
    this.#count = await askJson(`leaderboard/count?partial=true${this.#period.query}`, { signal });
  }

  #turnTo(after) {
    this.#after = after;
    this.#forget();
    byId("games-title").focus();
    this.#turn.abort();
  }

  #lastId() {
    return [...this.#boards.keys()].sort(byProduct).at(-1);
  }

  #forget() {
    for (const id of [...this.#boards.keys()]) this.#remove(id);
    this.#complete = false;
    this.#lastEventId = undefined;
  }

  #put(id, entries) {
    this.#again?.add(id);
    let board = this.#boards.get(id);
    if (!board) {
      board = { id, name: "", folded: "", entries: [], card: makeCard(id) };
      this.#boards.set(id, board);
      this.#place(board);
    }
    const leader = board.entries[0];
    board.entries = entries;
    if (board.name !== entries[0].gameName) {
      board.name = entries[0].gameName;
      board.folded = folded(board.name);
    }
    if (leader && (leader.playerId !== entries[0].playerId || leader.score !== entries[0].score)) {
      const { playerName, score } = entries[0];
      this.#announcer.changed(board.name, `${board.name}: ${playerName} is first with ${number(score)}.`);
    }
    this.#frames.add(id);
  }

  /** Put a new card where its id belongs. */
  #place(board) {
    const cards = byId("cards");
    const last = cards.lastElementChild;
    if (!last || byProduct(last.dataset.product, board.id) < 0) return cards.append(board.card);
    const next = Array.from(cards.children).find((card) => byProduct(board.id, card.dataset.product) < 0);
    cards.insertBefore(board.card, next);
  }

  #remove(id) {
    this.#boards.get(id)?.card.remove();
    this.#boards.delete(id);
    this.#frames.add(id);
  }

  #completed() {
    if (this.#again) for (const id of [...this.#boards.keys()]) if (!this.#again.has(id)) this.#remove(id);
    this.#again = null;
    this.#complete = true;
    this.#filter();
  }

  #draw(id, few) {
    const board = this.#boards.get(id);
    if (board) {
      const { card, name, entries } = board;
      say(card.querySelector("a"), name);
      const seen = card.checkVisibility?.({ contentVisibilityAuto: true }) ?? true;
      showEntries(card.querySelector("ol"), entries.slice(0, 3), { makeRow, fillRow, moving: few && seen });
    }
  }

  #filter() {
    const text = byId("search").value.trim();
    const wanted = folded(text);
    let shown = 0;
    for (const { id, folded: name, card } of this.#boards.values()) {
      const hidden = Boolean(wanted) && !id.startsWith(wanted) && !name.includes(wanted);
      if (card.hidden !== hidden) card.hidden = hidden;
      if (!hidden) shown += 1;
    }
    this.#say(text, shown);
  }

  #say(text, shown) {
    const known = this.#paged || this.#boards.size || this.#complete;
    say(byId("games-count"), known ? plural(this.count, "game") : "");
    const here = this.#paged ? " on this page" : "";
    const open = isInteger(text) && !this.#boards.has(text) ? `. Enter opens game ${text}` : "";
    say(byId("search-hint"), text ? `${shown ? plural(shown, "game") : "No game"}${here}${open}` : "");
    const none = !this.#boards.size && this.#complete;
    say(byId("empty"), none ? `No game has a score${this.#period.text || " yet"}. The first one shows here the moment it arrives.` : "");
    byId("empty").hidden = !none;
  }

  /** Open the game with this id, or the only or first one that is shown. */
  #open(event) {
    event.preventDefault();
    const text = byId("search").value.trim();
    const card = byId("cards").querySelector(".card:not([hidden])");
    if (isInteger(text)) location.hash = linkTo(text);
    else if (text && card) location.hash = linkTo(card.dataset.product);
  }
}

function makeCard(id) {
  const link = make("a", { href: linkTo(id) });
  return make(
    "li",
    { className: "card", "data-product": id },
    make("h2", {}, link),
    make("p", { className: "id" }, make("span", { className: "hidden" }, "Game id "), id),
    make("ol", { role: "list" }),
  );
}

function makeRow() {
  return make(
    "li",
    { className: "place" },
    make("span", { className: "medal" }),
    make("span", { className: "player" }),
    make("span", { className: "score" }),
  );
}

function fillRow(row, entry, place) {
  const [medal, player, score] = row.children;
  row.dataset.place = place;
  say(medal, String(place));
  say(player, entry.playerName);
  say(score, number(entry.score));
}
