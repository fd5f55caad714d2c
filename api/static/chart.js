// A chart of values over time: a bar for each window, none where a window has no row. Windows are picked by pointer or by
// arrow keys; what is picked is told in words.

import { timeTicks } from "./times.js";

const SVG = "http://www.w3.org/2000/svg";
const FEWEST = 12; // So many windows have room at least: one alone is not as wide as the chart.
const BAR_PX = 2; // Narrower bars are drawn together, from the lowest to the highest.
const KEYS = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1, PageDown: -10, PageUp: 10, Home: -Infinity, End: Infinity };

const compact = new Intl.NumberFormat(undefined, { notation: "compact", maximumFractionDigits: 2 });
const plain = new Intl.NumberFormat(undefined, { maximumFractionDigits: 6 });
const tiny = new Intl.NumberFormat(undefined, { notation: "scientific", maximumSignificantDigits: 3 });

export class Chart {
  #element;
  #picked;
  #bars = [];
  #lengthMs = 1;
  #areApart = false;
  #at = null; // When the picked window begins; null: the newest one.
  #x = () => 0;

  /** `element` is a slider, which gets the picture; `picked` is told the bar that is picked. */
  constructor(element, picked) {
    this.#element = element;
    this.#picked = picked;
    new ResizeObserver(() => this.#draw()).observe(element);
    element.addEventListener("pointermove", (event) => this.#pickNear(event));
    element.addEventListener("pointerdown", (event) => this.#pickNear(event));
    element.addEventListener("pointerleave", (event) => event.pointerType === "mouse" && this.#pick(null));
    element.addEventListener("keydown", (event) => this.#key(event));
  }

  /** Begin with other windows: the newest is picked. */
  begin() {
    this.#at = null;
    this.#bars = [];
  }

  /**
   * Draw bars, ascending: {startMs, untilMs, value} each, and what else `picked` needs; the value is null where there is
   * none. A bar is about `lengthMs` long. Between bars that are not apart in time some room is left.
   */
  show(bars, lengthMs, areApart) {
    [this.#bars, this.#lengthMs, this.#areApart] = [bars, lengthMs, areApart];
    this.#draw();
  }

  #index() {
    const index = this.#at === null ? -1 : this.#bars.findIndex(({ startMs }) => startMs === this.#at);
    return index < 0 ? this.#bars.length - 1 : index;
  }

  #pick(at) {
    this.#at = at;
    this.#tell();
    this.#mark();
  }

  #pickNear(event) {
    if (!this.#bars.length) return;
    const x = event.clientX - this.#element.getBoundingClientRect().left;
    const away = ({ startMs, untilMs }) => Math.max(this.#x(startMs) - x, x - this.#x(untilMs), 0);
    this.#pick(this.#bars.reduce((near, bar) => (away(bar) < away(near) ? bar : near)).startMs);
  }

  #key(event) {
    const step = KEYS[event.key];
    if (step === undefined || !this.#bars.length) return;
    event.preventDefault();
    const last = this.#bars.length - 1;
    const index = Math.min(last, Math.max(0, this.#index() + step));
    this.#pick(index === last ? null : this.#bars[index].startMs);
  }

  #tell() {
    const index = this.#index();
    const text = this.#picked(this.#bars[index]);
    const told = { "aria-valuemin": 1, "aria-valuemax": this.#bars.length, "aria-valuenow": index + 1, "aria-valuetext": text };
    for (const [name, value] of Object.entries(told)) this.#element.setAttribute(name, String(value));
  }

  #draw() {
    const width = this.#element.clientWidth;
    if (!this.#bars.length || !width) return;
    const em = parseFloat(getComputedStyle(this.#element).fontSize);
    const height = Math.round(Math.min(22 * em, Math.max(12 * em, width * 0.35)));
    const values = this.#bars.map(({ value }) => value).filter((value) => value !== null);
    const least = values.every(Number.isInteger) ? 1 : 0;
    const [lowest, highest] = values.reduce(([low, high], value) => [Math.min(low, value), Math.max(high, value)], [0, 0]);
    const ticks = valueTicks(lowest, highest, Math.max(2, Math.floor(height / (3 * em))), least);
    const labels = ticks.map((tick) => numberText(tick, ticks[1] - ticks[0]));
    const frame = { left: (Math.max(...labels.map((label) => label.length), 3) * 0.62 + 0.8) * em, right: width - 1, top: 0.7 * em, bottom: height - 3.1 * em };
    const toMs = this.#bars.reduce((latest, { untilMs }) => Math.max(latest, untilMs), -Infinity);
    const fromMs = Math.min(this.#bars[0].startMs, toMs - FEWEST * this.#lengthMs);
    const [low, high] = [ticks[0], ticks.at(-1)];
    this.#x = (ms) => frame.left + ((ms - fromMs) / (toMs - fromMs)) * (frame.right - frame.left);
    const y = (value) => frame.bottom - ((value - low) / (high - low)) * (frame.bottom - frame.top);
    const picture = draw("svg", { width, height, viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true", focusable: "false" });
    ticks.forEach((tick, index) => {
      picture.append(draw("line", { class: "grid", x1: frame.left, x2: frame.right, y1: y(tick), y2: y(tick) }));
      picture.append(draw("text", { x: frame.left - 0.5 * em, y: y(tick) + 0.35 * em, "text-anchor": "end" }, labels[index]));
    });
    picture.append(...timeAxis(timeTicks(fromMs, toMs, Math.max(1, (frame.right - frame.left) / (7 * em))), this.#x, frame, em));
    picture.append(draw("line", { class: "nothing", x1: frame.left, x2: frame.right, y1: y(0), y2: y(0) }));
    picture.append(...this.#columns(y));
    this.#element.replaceChildren(picture);
    this.#tell();
    this.#mark();
  }

  /** Return a bar for each window, or for those that would be too narrow by themselves. */
  #columns(y) {
    const columns = new Map();
    for (const { startMs, untilMs, value } of this.#bars) {
      const [from, until] = [this.#x(startMs), this.#x(untilMs)];
      const isNarrow = until - from < BAR_PX + 1;
      const left = isNarrow ? Math.floor(from / (BAR_PX + 1)) * (BAR_PX + 1) : from;
      const column = columns.get(left) ?? { first: startMs, room: isNarrow ? BAR_PX + 1 : until - from, low: 0, high: 0 };
      column.last = startMs;
      column.low = Math.min(column.low, value ?? 0);
      column.high = Math.max(column.high, value ?? 0);
      columns.set(left, column);
    }
    return Array.from(columns, ([left, { first, last, room, low, high }]) => {
      const gap = room <= 6 ? 1 : this.#areApart ? 0 : Math.min(room * 0.2, 12);
      // Also of a zero something is seen: there is a row.
      const [top, bottom] = [Math.min(y(high), y(0) - 1), Math.max(y(low), y(0) + 1)];
      return draw("rect", { class: "bar", x: left + gap / 2, y: top, width: room - gap, height: bottom - top, "data-first": first, "data-last": last });
    });
  }

  #mark() {
    const at = this.#bars[this.#index()]?.startMs;
    for (const bar of this.#element.querySelectorAll(".bar")) {
      bar.classList.toggle("picked", Number(bar.dataset.first) <= at && at <= Number(bar.dataset.last));
    }
  }
}

function draw(tag, attributes, text) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, typeof value === "number" ? String(Math.round(value * 100) / 100) : value);
  if (text !== undefined) element.textContent = text;
  return element;
}

function timeAxis(ticks, x, frame, em) {
  return ticks.flatMap(([ms, label, further]) => {
    const at = x(ms);
    const mark = draw("line", { class: "tick", x1: at, x2: at, y1: frame.bottom, y2: frame.bottom + 0.35 * em });
    if (at + Math.max(label.length, further.length) * 0.29 * em > frame.right) return [mark]; // It has no room.
    const texts = [label, further].map((text, line) => draw("text", { x: at, y: frame.bottom + (1.4 + 1.2 * line) * em, "text-anchor": "middle" }, text));
    return [mark, ...texts];
  });
}

/** Return round values from `low` or below it to `high` or above it, about as many as `most`; zero is one of them. They are `least` apart, or more. */
export function valueTicks(low, high, most, least = 0) {
  const rough = Math.max((high - low || 1) / most, least);
  const ten = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((each) => each * ten).find((each) => each >= rough * 0.999);
  const [first, last] = [Math.floor(low / step + 1e-9), Math.max(Math.ceil(high / step - 1e-9), 1 + Math.floor(low / step + 1e-9))];
  return Array.from({ length: last - first + 1 }, (_, index) => Number(((first + index) * step).toPrecision(12)));
}

function numberText(value, step) {
  if (value === 0) return "0";
  if (Math.abs(value) >= 1e15 || step < 1e-6) return tiny.format(value);
  return Math.abs(value) >= 1e4 && step >= 10 ? compact.format(value) : plain.format(value);
}
