// The stores: what each is, how many rows it shows, and the row of a key.

import { ask, askJson, isExpected, readAsText, textOf } from "./ask.js";
import { byId, make, number, say } from "./show.js";

export class Stores {
  #names = "";
  #held = false;

  constructor() {
    byId("find").addEventListener("submit", (event) => {
      event.preventDefault();
      this.#find(byId("find-store").value, byId("find-key").value);
    });
  }

  hold(held) {
    this.#held = held;
  }

  /** Ask for the stores once, and show them. */
  async look(signal) {
    const stores = await askJson("stores", { signal });
    readAsText(...stores.map(({ key }) => key.name));
    if (this.#held) return;
    byId("stores-rows").replaceChildren(...stores.map(row));
    const names = stores.map(({ name }) => name).join(" ");
    if (names === this.#names) return;
    this.#names = names;
    byId("find-store").replaceChildren(...stores.map(({ name }) => make("option", { value: name }, name)));
  }

  async #find(store, key) {
    const path = `stores/${store}/keys/${encodeURIComponent(key)}`;
    byId("found").hidden = true;
    try {
      const response = await ask(path);
      say(byId("found-where"), `Answered by ${response.headers.get("x-served-by")}, the ${response.headers.get("x-store-role")} copy.`);
      byId("found").textContent = await textOf(response);
      byId("found").hidden = false;
    } catch (error) {
      if (!isExpected(error)) throw error;
      say(byId("found-where"), error.message);
    }
  }
}

const typed = ({ name, type }) => `${name}: ${type}`;

function row({ name, topic, key, columns, count }) {
  return make(
    "tr",
    {},
    make("th", { scope: "row" }, name),
    make("td", {}, typed(key)),
    make("td", {}, columns.map(typed).join(", ") || "–"),
    make("td", {}, topic),
    make("td", { className: "number" }, count === null ? "–" : number(count)),
  );
}
