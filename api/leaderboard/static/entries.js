// How games are shown: lists of entries whose changes can be seen, announcements, frames.

import { arrange, plural } from "./show.js";

const CHANGED_MS = 2_000;
const MOVE_MS = 350;
const ANNOUNCE_EVERY_MS = 8_000;
const MOST_NAMED = 3;

const still = matchMedia("(prefers-reduced-motion: reduce)");

/**
 * Show entries as the children of `list`. Who stays keeps its element and is seen to move; who is new is marked for a
 * moment, unless the list is shown for the first time.
 */
export function showEntries(list, entries, { makeRow, fillRow, moving }) {
  const first = !list.childElementCount;
  const old = new Map(Array.from(list.children, (row) => [row.dataset.entry, row]));
  const moves = moving && !still.matches && !first;
  const before = moves ? new Map(Array.from(old, ([key, row]) => [key, [row.offsetLeft, row.offsetTop]])) : null;
  const seen = new Map();
  const rows = entries.map((entry, index) => {
    // A player may hold several places, also with equal scores.
    const same = `${entry.playerId} ${entry.score}`;
    seen.set(same, (seen.get(same) ?? 0) + 1);
    const key = `${same} ${seen.get(same)}`;
    const row = old.get(key) ?? makeRow();
    if (!old.delete(key)) {
      row.dataset.entry = key;
      if (!first) mark(row);
    }
    fillRow(row, entry, index + 1);
    return row;
  });
  arrange(list, rows);
  if (moves) rows.forEach((row) => move(row, before.get(row.dataset.entry)));
}

function mark(row) {
  row.classList.add("changed");
  setTimeout(() => row.classList.remove("changed"), CHANGED_MS);
}

function move(row, from) {
  if (!from) return;
  const [x, y] = [from[0] - row.offsetLeft, from[1] - row.offsetTop];
  if (!x && !y) return;
  row.animate([{ transform: `translate(${x}px, ${y}px)` }, { transform: "none" }], { duration: MOVE_MS, easing: "ease-out" });
}

/** Tells a screen reader in one sentence what has changed, at most once in a few seconds. */
export class Announcer {
  #element;
  #waiting = new Map();
  #timer = 0;
  #lastMs = -ANNOUNCE_EVERY_MS;

  constructor(element) {
    this.#element = element;
  }

  /** Note a change: of what, and the sentence about it; a later one takes its place. */
  changed(name, sentence) {
    this.#waiting.set(name, sentence);
    if (this.#timer) return;
    const waitMs = Math.max(1_000, this.#lastMs + ANNOUNCE_EVERY_MS - performance.now());
    this.#timer = setTimeout(() => this.#announce(), waitMs);
  }

  /** Forget what has not been said. */
  clear() {
    clearTimeout(this.#timer);
    this.#timer = 0;
    this.#waiting.clear();
  }

  #announce() {
    const names = [...this.#waiting.keys()];
    const [only] = this.#waiting.values();
    const rest = names.length - MOST_NAMED;
    const named = names.slice(0, MOST_NAMED).join(", ") + (rest > 0 ? ` and ${rest} more` : "");
    this.clear();
    this.#lastMs = performance.now();
    this.#element.textContent = names.length === 1 ? only : `New leaders in ${plural(names.length, "game")}: ${named}.`;
  }
}

/** Draws what has changed before the next frame, for a few milliseconds a frame; the newest state wins. */
export class Frames {
  #dirty = new Set();
  #draw;
  #after;
  #asked = false;
  #held = false;

  /** `draw` draws one item, `after` follows once a frame. */
  constructor(draw, after = () => {}) {
    this.#draw = draw;
    this.#after = after;
  }

  add(item) {
    this.#dirty.add(item);
    this.#ask();
  }

  /** Hold back drawing, or go on. */
  hold(held) {
    this.#held = held;
    this.#ask();
  }

  #ask() {
    if (this.#asked || this.#held || !this.#dirty.size) return;
    this.#asked = true;
    requestAnimationFrame(() => this.#frame());
  }

  #frame() {
    this.#asked = false;
    if (this.#held) return;
    const until = performance.now() + 8;
    const few = this.#dirty.size <= 12;
    for (const item of this.#dirty) {
      this.#dirty.delete(item);
      this.#draw(item, few);
      if (performance.now() > until) break;
    }
    this.#after();
    this.#ask();
  }
}
