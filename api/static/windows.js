// The windows of one key over time: a chart of one column, and a table of all that the rows say. Sessions are windows
// that are as long as events come: each is drawn from its begin to its end, and there is none missing between two.

import { Chart } from "./chart.js";
import { arrange, byId, make, number, plural, say } from "./show.js";
import { isOfWindow, lengthMs, spanText, timeText } from "./times.js";
import { cellText, mark } from "./values.js";

const TABLE_MOST = 500; // The table has so many of the newest windows; all are in the answer that it leads to.
const SPANS = [30, 120, 500];
const OWN = ["windowStart", "windowEnd"];

export class Windows {
  #chart = new Chart(byId("windows-chart"), (bar) => this.#tellPicked(bar));
  #store = null;
  #rows = [];

  constructor() {
    for (const name of ["windows-column", "windows-span"]) byId(name).addEventListener("change", () => this.#draw());
  }

  /** Begin with another key. */
  begin() {
    [this.#store, this.#rows] = [null, []];
    this.#chart.begin();
    byId("windows-span").value = "";
    byId("windows-rows").replaceChildren();
    byId("windows-head").replaceChildren();
    byId("row-windows").hidden = true;
  }

  /** Show the rows of a key, the oldest window first; `path` leads to all of them as JSON. */
  show(store, rows, path) {
    [this.#store, this.#rows] = [store, rows];
    byId("windows-json").href = path;
    byId("row-windows").hidden = false;
    this.#draw();
  }

  #draw() {
    const { window } = this.#store;
    const everyMs = window.gap ? null : lengthMs(window.every);
    const columns = columnsOf(this.#store, this.#rows);
    const numeric = columns.filter((name) => isNumeric(this.#store, this.#rows, name));
    const named = window.gap ? "session" : "window";
    say(byId("windows-title"), window.gap ? "Sessions" : "Windows");
    say(byId("windows-caption"), window.gap ? "Sessions that have ended, the newest first" : "Windows with a row, the newest first");
    say(byId("windows-text"), `${plural(this.#rows.length, named)}${lengthText(window)}. Times are UTC.`);
    choose("windows-column", numeric.map((name) => [name, name]));
    byId("windows-figure").hidden = !numeric.length;
    byId("windows-chart").setAttribute("aria-label", `${byId("windows-column").value} by ${named}`);
    if (numeric.length) this.#chart.show(this.#bars(everyMs), everyMs ?? lengthMs(window.gap), everyMs === null);
    this.#table(columns, numeric, everyMs);
  }

  /** Return the windows of the chart: all, or the newest. */
  #bars(everyMs) {
    const column = byId("windows-column").value;
    const bars = this.#rows.map((row) => {
      const startMs = Date.parse(row.windowStart);
      const value = row[column] === null || row[column] === undefined ? null : Number(row[column]);
      // Where windows overlap, each stands for the time until the next one begins.
      return { row, startMs, untilMs: everyMs === null ? Date.parse(row.windowEnd) : startMs + everyMs, value };
    });
    const last = bars.length - 1;
    const back = (index) => (everyMs === null ? last - index : (bars[last].startMs - bars[index].startMs) / everyMs);
    choose("windows-span", [["", "All"], ...SPANS.filter((span) => span <= back(0)).map((span) => [String(span), `Newest ${span}`])]);
    const span = Number(byId("windows-span").value) || Infinity;
    return bars.filter((_, index) => back(index) < span);
  }

  #tellPicked({ row, value }) {
    const column = byId("windows-column").value;
    say(byId("windows-value"), value === null ? "–" : shortText(row[column]));
    say(byId("windows-name"), column);
    say(byId("windows-when"), spanText(row));
    return `${column} ${cellText(row[column])}, ${spanText(row, "to ")} UTC`;
  }

  /** Show the newest windows, and between them how many have no row: `everyMs` is null where any may be there or not. */
  #table(columns, numeric, everyMs) {
    const classes = columns.map((name) => (numeric.includes(name) ? "number" : ""));
    const head = byId("windows-head");
    const body = byId("windows-rows");
    if (head.dataset.names !== columns.join(" ") || !head.childElementCount) {
      head.dataset.names = columns.join(" ");
      // When a window ends stands last: on a narrow screen the values are seen first.
      const names = [["Begins", ""], ...columns.map((name, index) => [name, classes[index]]), ["Ends", ""]];
      head.replaceChildren(...names.map(([name, className]) => make("th", { scope: "col", className }, name)));
      body.replaceChildren();
    }
    const first = !body.childElementCount;
    const old = new Map(Array.from(body.children, (element) => [element.dataset.key, element]));
    const elements = [];
    let after = null; // When the window begins that stands above.
    for (const row of this.#rows.slice(-TABLE_MOST).reverse()) {
      const startMs = Date.parse(row.windowStart);
      const lacking = after === null || everyMs === null ? 0 : Math.round((after - startMs) / everyMs) - 1;
      if (lacking > 0) elements.push(gapRow(old, `${startMs}+${lacking}`, lacking, columns.length + 2));
      elements.push(windowRow(old, row, columns, classes, !first));
      after = startMs;
    }
    arrange(body, elements);
    const rest = this.#rows.length - TABLE_MOST;
    say(byId("windows-rest"), rest > 0 ? `The newest ${number(TABLE_MOST)} of ${number(this.#rows.length)}. ` : "");
  }
}

function lengthText({ size, every, gap }) {
  if (gap) return `; one ends when nothing comes for ${gap}`;
  return ` of ${size}${every === size ? "" : `, one every ${every}`}`;
}

function gapRow(old, key, lacking, span) {
  return old.get(key) ?? make("tr", { "data-key": key, className: "gap" }, make("td", { colspan: span }, `${plural(lacking, "window")} without a row`));
}

function windowRow(old, row, columns, classes, marking) {
  const known = old.get(row.windowStart);
  const element = known ?? make("tr", { "data-key": row.windowStart }, make("th", { scope: "row" }, timeText(row.windowStart)), ...classes.map((className) => make("td", { className })), make("td", {}, timeText(row.windowEnd)));
  columns.forEach((name, index) => {
    const cell = element.children[index + 1];
    const text = cellText(row[name]);
    if (cell.textContent === text) return;
    cell.textContent = text;
    if (marking && known) mark(cell);
  });
  if (marking && !known) mark(element);
  return element;
}

/** Return whether rows are windows that can be shown over time. */
export const areWindows = (rows) => Array.isArray(rows) && rows.length > 0 && rows.every(isOfWindow);

function columnsOf(store, rows) {
  const names = new Set(rows.flatMap(Object.keys));
  for (const name of [store.key.name, ...OWN]) names.delete(name);
  return [...names];
}

/** Return whether a column has numbers: read as text where they are declared, so that no digit is lost. */
function isNumeric(store, rows, name) {
  const declared = store.columns.some((each) => each.name === name && ["integer", "number"].includes(each.type));
  const values = rows.map((row) => row[name]).filter((value) => value !== null && value !== undefined);
  return declared || (values.length > 0 && values.every((value) => typeof value === "number"));
}

/** Return a number with its digits in groups, as many as it has; as it is where it is too long to be read at once. */
function shortText(value) {
  const [, sign, whole, rest] = /^(-?)(\d{1,15})(\.\d{1,6})?$/.exec(String(value)) ?? [];
  return whole === undefined ? String(value) : `${sign}${number(Number(whole))}${rest ?? ""}`;
}

/** Have a choice offer values: [value, text] each. One that is chosen stays so while it is offered. */
function choose(id, offered) {
  const select = byId(id);
  const key = offered.map(([value]) => value).join(" ");
  if (select.dataset.key !== key) {
    const chosen = select.value;
    select.dataset.key = key;
    select.replaceChildren(...offered.map(([value, text]) => make("option", { value }, text)));
    select.value = offered.some(([value]) => value === chosen) ? chosen : (offered[0]?.[0] ?? "");
  }
  select.parentElement.hidden = offered.length < 2;
}
