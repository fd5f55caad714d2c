// The choice of a period: all time, or a day, week or month in UTC, the one that runs or the one before it.

import { byId } from "./show.js";

const DAY_MS = 86_400_000;

/** Return the text of the day in UTC, as the routes take it, of so many milliseconds from 1970. */
const dayOf = (ms) => new Date(ms).toISOString().slice(0, 10);

/** Return a day of the period before the one that runs. */
function dayBefore(name) {
  const now = new Date();
  if (name === "month") return dayOf(Date.UTC(now.getUTCFullYear(), now.getUTCMonth(), 0));
  return dayOf(now.getTime() - (name === "week" ? 7 : 1) * DAY_MS);
}

export class Period {
  #select = byId("period");
  #when = byId("period-when");

  /** `changed` is called when another one is chosen. */
  constructor(changed) {
    this.#select.addEventListener("change", () => changed());
  }

  /** What is asked for: parameters with an `&` in front of each, none for all time. */
  get query() {
    const [name, which] = this.#chosen();
    if (name === "all") return "";
    return which ? `&period=${name}&at=${dayBefore(name)}` : `&period=${name}`;
  }

  /** Whether it runs, so that all of its boards can be followed. */
  get runs() {
    return !this.#chosen()[1];
  }

  /** When it is, to be put behind a sentence; empty for all time. */
  get text() {
    const chosen = this.#select.selectedOptions[0];
    return chosen.value === "all" ? "" : ` ${chosen.dataset.in}`;
  }

  #chosen() {
    return this.#select.value.split(" ");
  }

  /** Show the choice where boards are shown. */
  show(shown) {
    const others = [...this.#select.options].some((each) => !each.disabled && each.value !== "all");
    this.#when.hidden = !shown || !others;
  }
}
