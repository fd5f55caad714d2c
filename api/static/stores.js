// The stores: what each is, the rows of one, live, found by how their keys begin; and one row.
//
//   #/stores, #/stores/counts-store      the rows of a store: all of them live while they are few, else a page at a time
//   #/stores/counts-store/keys/hello     one row, live

import { ask, askJson, isExpected, jsonOf, keepTrying, pause, readAsText, readEvents } from "./ask.js";
import { columnsOfKey, isKey, isText, keyColumnsOf, keyOf, nameOf, orderOfKeys, orderOfNames } from "./names.js";
import { OneRow } from "./row.js";
import { arrange, byId, make, number, plural, say } from "./show.js";
import { isOfWindow, spanText } from "./times.js";
import { cellText, keyText, mark } from "./values.js";

const LIVE_MOST = 500; // More rows than that are shown a page at a time.
const PAGE_SIZE = 50;
const EVERY_MS = 2_000;
const TYPED_MS = 150;
const WINDOW = Symbol("window"); // The column that says of which window a row is.

const linkTo = (store, key) => `#/stores/${encodeURIComponent(store)}${key === undefined ? "" : `/keys/${encodeURIComponent(key)}`}`;

export class Stores {
  #row;
  #stores = [];
  #store = null; // The one whose rows are shown.
  #wanted = "";
  #prefix = "";
  #after = null; // The name of the row that the page comes after.
  #next = null; // The name of the row that the next page comes after.
  #live = null; // Rows by name, while all of them are live.
  #held = false;
  #asked = false;
  #again = () => {};
  #typed = 0;

  /** `title` is that of the page. */
  constructor(title) {
    this.#row = new OneRow(title, async (signal, wanted) => {
      await this.#look(signal);
      return this.#stores.find(({ name }) => name === wanted);
    });
    byId("find").addEventListener("submit", (event) => {
      event.preventDefault();
      const key = byId("find-key").value;
      if (key && this.#store) location.hash = linkTo(this.#store.name, key);
    });
    byId("find-key").addEventListener("input", () => {
      clearTimeout(this.#typed);
      this.#typed = setTimeout(() => this.#turnTo(byId("find-key").value), TYPED_MS);
    });
    byId("rows-first").addEventListener("click", () => this.#turnTo(this.#prefix));
    byId("rows-next").addEventListener("click", () => this.#turnTo(this.#prefix, this.#next));
  }

  /** Return the view of an address, or null when it is none of these. */
  route(hash) {
    const found = /^#\/stores(?:\/([^/]+)(?:\/keys\/(.+))?)?$/.exec(hash);
    if (!found) return null;
    const [store, key] = [found[1], found[2]].map((text) => text && decoded(text));
    if (key === undefined) return { name: "stores", store, fed: `store ${store ?? ""}` };
    return { name: "row", store, key, fed: `store ${store} row ${key}`, within: "stores", back: linkTo(store) };
  }

  /** Prepare to show a view. */
  open(view) {
    if (view.name === "row") this.#row.open(view.store, view.key, view.back);
  }

  /** Feed a view until `signal`. */
  run(view, signal, tell) {
    if (view.name === "row") return this.#row.run(signal, tell);
    this.#wanted = view.store;
    this.#watch(signal);
    return keepTrying(signal, (live) => this.#follow(signal, live), tell);
  }

  locate(view, signal) {
    return view.name === "row" ? this.#row.locate(signal) : undefined;
  }

  refused(view, text) {
    if (view.name === "row") this.#row.explain(text);
    else this.#explain(text);
  }

  hold(held) {
    this.#held = held;
    this.#row.hold(held);
    this.#ask();
  }

  /** Ask for the stores and their counts again and again. */
  async #watch(signal) {
    while (!signal.aborted) {
      await pause(EVERY_MS, signal);
      if (document.hidden || this.#held || signal.aborted) continue;
      await this.#look(signal).catch((error) => {
        if (!isExpected(error)) throw error;
      });
    }
  }

  async #look(signal) {
    this.#stores = await askJson("stores", { signal });
    const columns = this.#stores.flatMap((store) => [...keyColumnsOf(store), ...store.columns]);
    readAsText("key", ...columns.filter(isNumber).map(({ name }) => name));
    this.#list();
  }

  #list() {
    const list = byId("stores-rows");
    const old = new Map(Array.from(list.children, (row) => [row.dataset.store, row]));
    const rows = this.#stores.map((store) => {
      const row = old.get(store.name) ?? storeRow(store.name);
      fillStoreRow(row, store, store.name === this.#store?.name);
      return row;
    });
    arrange(list, rows);
  }

  /** Show the rows of a store: from its stream while they are few, else a page again and again. */
  async #follow(signal, live) {
    await this.#look(signal);
    live();
    const store = this.#wanted === undefined ? this.#stores[0] : this.#stores.find(({ name }) => name === this.#wanted);
    if (!store) return this.#lack(signal);
    this.#show(store);
    if (store.count !== null && store.count <= LIVE_MOST) await this.#stream(store, signal, live);
    else await this.#poll(store, signal, live);
  }

  async #lack(signal) {
    byId("store-rows").hidden = false;
    byId("find").hidden = true;
    say(byId("store-title"), "Rows");
    this.#explain(`There is no store “${this.#wanted}”. The stores are above.`);
    while (!signal.aborted) await pause(EVERY_MS, signal);
  }

  #show(store) {
    const other = store.name !== this.#store?.name;
    this.#store = store;
    byId("store-rows").hidden = byId("find").hidden = false;
    if (!other) return;
    [this.#prefix, this.#after, this.#next, this.#live] = ["", null, null, null];
    byId("find-key").value = "";
    say(byId("store-title"), `Rows of ${store.name}`);
    say(byId("find-label"), isText(store) ? `${store.key.name}, or how it begins` : `${store.key.name}, or from which on`);
    byId("rows-body").replaceChildren();
    this.#list();
  }

  async #stream(store, signal, live) {
    let complete = false;
    const own = new AbortController();
    const stop = () => own.abort(signal.reason);
    signal.addEventListener("abort", stop, { once: true });
    const told = (name, data) => {
      if (name === "reset") [this.#live, complete] = [new Map(), false];
      else if (name === "row") this.#live.set(String(data.key), data.row);
      else if (name === "gone") this.#live.delete(String(data.key));
      else if (name === "complete") complete = true;
      if (this.#live.size > 2 * LIVE_MOST) own.abort();
      if (complete) this.#ask();
    };
    this.#again = () => this.#ask();
    try {
      await readEvents(`stores/${store.name}/events`, { signal: own.signal, opened: live, told });
    } catch (error) {
      // There have come to be too many: a page at a time, from now on.
      if (!own.signal.aborted || signal.aborted) throw error;
    } finally {
      signal.removeEventListener("abort", stop);
    }
    if (own.signal.aborted && !signal.aborted) await this.#poll(store, signal, live);
  }

  async #poll(store, signal, live) {
    this.#live = null;
    while (!signal.aborted) {
      const turn = new AbortController();
      this.#again = () => turn.abort();
      if (!document.hidden && !this.#held) {
        await this.#page(store, AbortSignal.any([signal, turn.signal])).catch((error) => {
          if (!turn.signal.aborted) throw error;
        });
        live();
      }
      await pause(turn.signal.aborted ? 0 : EVERY_MS, AbortSignal.any([signal, turn.signal]));
    }
  }

  async #page(store, signal) {
    const query = new URLSearchParams({ page_size: PAGE_SIZE });
    if (this.#prefix && isText(store)) query.set("prefix", this.#prefix);
    else if (isKey(store, this.#prefix)) query.set("from", this.#prefix);
    if (this.#after !== null) query.set("after", this.#after);
    const response = await ask(`stores/${store.name}/keys?${query}`, { signal });
    const rows = await jsonOf(response);
    const [, link] = /<([^>]*)>; *rel="next"/.exec(response.headers.get("link") ?? "") ?? [];
    this.#next = link ? new URLSearchParams(link.split("?")[1]).get("after") : null;
    this.#draw(rows.map((row) => [nameOf(store, row), row]));
    this.#tell(`${plural(rows.length, "row")} of ${number(this.#count())}, renewed every ${EVERY_MS / 1000} s`);
  }

  #count() {
    return this.#stores.find(({ name }) => name === this.#store.name)?.count ?? 0;
  }

  /** Show the rows whose keys begin so, after a key. */
  #turnTo(prefix, after = null) {
    [this.#prefix, this.#after] = [prefix, after];
    this.#again();
  }

  #ask() {
    if (this.#asked || this.#held || !this.#live) return;
    this.#asked = true;
    requestAnimationFrame(() => {
      this.#asked = false;
      if (this.#live && !this.#held) this.#drawLive();
    });
  }

  #drawLive() {
    const store = this.#store;
    const order = orderOfNames(store);
    const begins = (name) => {
      if (!this.#prefix) return true;
      const key = keyOf(store, name);
      if (isText(store)) return key.startsWith(this.#prefix);
      return !isKey(store, this.#prefix) || orderOfKeys(store)(key, this.#prefix) >= 0;
    };
    const names = [...this.#live.keys()].filter(begins).sort(order);
    const rest = this.#after === null ? names : names.filter((name) => order(name, this.#after) > 0);
    const page = rest.slice(0, PAGE_SIZE);
    this.#next = rest.length > PAGE_SIZE ? page.at(-1) : null;
    this.#draw(page.map((name) => [name, this.#live.get(name)]));
    this.#tell(names.length === this.#live.size ? plural(names.length, "row") : `${number(names.length)} of ${plural(this.#live.size, "row")}`);
  }

  #tell(text) {
    say(byId("rows-text"), text);
    byId("rows-first").hidden = this.#after === null;
    byId("rows-next").hidden = this.#next === null;
  }

  #explain(text) {
    say(byId("rows-empty"), text);
    byId("rows-empty").hidden = !text;
    byId("rows-table").hidden = Boolean(text);
  }

  /** Show rows, [name, row] each; what has changed of those that were shown is marked for a moment. */
  #draw(rows) {
    const store = this.#store;
    if (!rows.length) {
      const begun = this.#prefix ? `No key begins with “${this.#prefix}”.` : "No row is left.";
      const none = this.#prefix || this.#after !== null ? begun : "There is no row yet. The first one shows here the moment it arrives.";
      return this.#explain(this.#prefix && !isText(store) ? `There is no row from ${this.#prefix} on.` : none);
    }
    this.#explain("");
    const columns = columnsOf(store, rows.map(([, row]) => row));
    const classes = columns.map((name) => classOf(store, name));
    showHead([store.key.name, ...columns.map((name) => (name === WINDOW ? `${store.window.gap ? "session" : "window"} (UTC)` : name))], ["", ...classes]);
    const body = byId("rows-body");
    const first = !body.childElementCount;
    const old = new Map(Array.from(body.children, (row) => [row.dataset.key, row]));
    const drawn = rows.map(([name, row]) => {
      const id = name === undefined ? JSON.stringify(row) : String(name);
      const element = old.get(id) ?? make("tr", { "data-key": id }, rowHead(store, name));
      fill(element, columns.map((column) => textIn(row, column)), classes, !first);
      return element;
    });
    arrange(body, drawn);
  }
}

const isObject = (row) => typeof row === "object" && row !== null && !Array.isArray(row);

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text; // Nothing that the page itself links to.
  }
}

/** Return the columns beside the key: those of the rows that are objects, else one for the whole row. */
function columnsOf(store, rows) {
  const names = new Set(rows.filter(isObject).flatMap(Object.keys));
  for (const name of columnsOfKey(store)) names.delete(name);
  if (store.window && names.delete("windowStart") && names.delete("windowEnd")) return [WINDOW, ...names];
  return names.size ? [...names] : ["row"];
}

function textIn(row, column) {
  if (column === WINDOW) return isOfWindow(row) ? spanText(row) : "–";
  return cellText(isObject(row) ? row[column] : row);
}

const isNumber = ({ type }) => type === "integer" || type === "number";
const classOf = (store, name) => (name === WINDOW ? "window" : store.columns.some((each) => each.name === name && isNumber(each)) ? "number" : "");

function showHead(names, classes) {
  const head = byId("rows-head");
  if (head.dataset.names === names.join(" ")) return;
  head.dataset.names = names.join(" ");
  head.replaceChildren(...names.map((name, index) => make("th", { scope: "col", className: classes[index] }, name)));
  byId("rows-body").replaceChildren();
}

function rowHead(store, name) {
  if (name === undefined) return make("th", { scope: "row" }, "–");
  const key = keyOf(store, String(name));
  return make("th", { scope: "row" }, make("a", { href: linkTo(store.name, key) }, keyText(key)));
}

function fill(element, texts, classes, marking) {
  const isNew = element.childElementCount === 1;
  texts.forEach((text, index) => {
    const cell = element.children[index + 1] ?? element.appendChild(make("td", { className: classes[index] }));
    if (cell.textContent === text) return;
    cell.textContent = text;
    if (marking && !isNew) mark(cell);
  });
  if (isNew && marking) mark(element);
}

const typed = ({ name, type }) => `${name}: ${type}`;

function storeRow(name) {
  const cells = ["", "", "", "number"].map((className) => make("td", { className }));
  return make("tr", { "data-store": name }, make("th", { scope: "row" }, make("a", { href: linkTo(name) }, name)), ...cells);
}

function windowText({ size, every, gap }) {
  if (gap) return `session, until nothing came for ${gap}`;
  return `window of ${size}${every === size ? "" : `, every ${every}`}`;
}

function fillStoreRow(row, { topic, key, columns, window, count }, isShown) {
  const link = row.querySelector("a");
  if (isShown) link.setAttribute("aria-current", "true");
  else link.removeAttribute("aria-current");
  const texts = [window ? `${typed(key)}, ${windowText(window)}` : typed(key), columns.map(typed).join(", ") || "–", topic, count === null ? "–" : number(count)];
  texts.forEach((text, index) => say(row.children[index + 1], text));
}
