// One row, live, and which instances answer for it.

import { askJson, keepTrying, readEvents } from "./ask.js";
import { address, byId, make, say } from "./show.js";
import { cellText, keyText, mark } from "./values.js";

export class OneRow {
  #title;
  #prepare;
  #path = "";
  #key = "";
  #shown; // Undefined before anything came, null while there is no row.
  #lastEventId;
  #held = false;

  /** `title` is that of the page; `prepare` finds out how rows are read. */
  constructor(title, prepare) {
    this.#title = title;
    this.#prepare = prepare;
  }

  /** Begin with another row; `back` leads to the rows of its store. */
  open(store, key, back) {
    this.#path = `stores/${encodeURIComponent(store)}/keys/${encodeURIComponent(key)}`;
    this.#key = key;
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
        await this.#prepare(signal);
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
    const isObject = typeof row === "object" && row !== null && !Array.isArray(row);
    byId("row-whole").hidden = row === null || isObject;
    byId("row-whole").textContent = row === null ? "" : JSON.stringify(row, null, 2);
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
