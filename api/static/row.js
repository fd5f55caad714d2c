// One key, live, and which instances answer for it: its row, or its windows over time.

import { askJson, keepTrying, readEvents } from "./ask.js";
import { address, byId, make, say } from "./show.js";
import { cellText, keyText, mark } from "./values.js";
import { areWindows, Windows } from "./windows.js";

export class OneRow {
  #title;
  #prepare;
  #path = "";
  #key = "";
  #shown; // Undefined before anything came, null while there is no row.
  #lastEventId;
  #held = false;
  #windows = new Windows();
  #name = "";
  #store; // What is known of the store.

  /** `title` is that of the page; `prepare` finds out what a store is, and how its rows are read. */
  constructor(title, prepare) {
    this.#title = title;
    this.#prepare = prepare;
  }

  /** Begin with another row; `back` leads to the rows of its store. */
  open(store, key, back) {
    this.#path = `stores/${encodeURIComponent(store)}/keys/${encodeURIComponent(key)}`;
    [this.#name, this.#key] = [store, key];
    this.#windows.begin();
    this.#shown = this.#lastEventId = undefined;
    byId("row-values").replaceChildren();
    byId("row-whole").hidden = true;
    byId("row-empty").hidden = true;
    say(byId("row-where"), "");
    say(byId("row-title"), keyText(key));
    say(byId("row-back-text"), `Rows of ${store}`);
    byId("row-back").href = back;
  }

  /** Show what comes until `signal`. */
  run(signal, tell) {
    if (/^\.\.?$/.test(this.#key)) return this.explain(`A key that is ${this.#key} has no address of its own: it is a step in one. It is in the list of its store.`);
    const told = (name, data, id) => {
      this.#lastEventId = id ?? this.#lastEventId;
      if (name === "row" || name === "gone") this.#put(name === "row" ? data : null);
    };
    return keepTrying(
      signal,
      async (live) => {
        this.#store = await this.#prepare(signal, this.#name);
        await readEvents(`${this.#path}/events`, { signal, lastEventId: this.#lastEventId, opened: live, told });
      },
      tell,
    );
  }

  hold(held) {
    this.#held = held;
    if (!held) this.#draw();
  }

  /** Show who holds the row. */
  async locate(signal) {
    const path = this.#path;
    const { partition, active, standbys } = await askJson(`${path}/host`, { signal });
    if (path !== this.#path) return;
    const answering = active ? `answered by ${address(active)}` : "nobody answers for it";
    const warm = standbys.length ? `, warm at ${standbys.map(address).join(", ")}` : "";
    say(byId("row-where"), `Partition ${partition}: ${answering}${warm}`);
  }

  /** Show why there is nothing to show. */
  explain(text) {
    say(byId("row-empty"), text);
    byId("row-empty").hidden = false;
  }

  #put(row) {
    this.#shown = row;
    if (!this.#held) this.#draw();
  }

  #draw() {
    const row = this.#shown;
    if (row === undefined) return;
    document.title = `${keyText(this.#key)} · ${this.#title}`;
    byId("row-empty").hidden = row !== null;
    if (row === null) this.explain("There is no row to show for this key. When one comes, it shows here at once.");
    const overTime = Boolean(this.#store?.window) && areWindows(row);
    const isObject = typeof row === "object" && row !== null && !Array.isArray(row);
    byId("row-whole").hidden = row === null || isObject || overTime;
    byId("row-windows").hidden = !overTime;
    if (overTime) this.#windows.show(this.#store, row, this.#path);
    byId("row-whole").textContent = row === null || overTime ? "" : JSON.stringify(row, null, 2);
    this.#show(isObject ? Object.entries(row) : []);
  }

  #show(values) {
    const list = byId("row-values");
    const old = new Map(Array.from(list.children, (element) => [element.dataset.name, element]));
    const elements = values.map(([name, value]) => {
      const known = old.get(name);
      const element = known ?? make("div", { "data-name": name }, make("dt", {}, name), make("dd"));
      const text = cellText(value);
      if (element.lastChild.textContent !== text) {
        element.lastChild.textContent = text;
        if (known) mark(element);
      }
      return element;
    });
    list.replaceChildren(...elements);
  }
}
