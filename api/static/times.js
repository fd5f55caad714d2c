// Times and lengths of time as they are shown: in UTC, as the service has them.

const UNIT_MS = { second: 1_000, minute: 60_000, hour: 3_600_000, day: 86_400_000 };
const DAY_MS = UNIT_MS.day;
const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const STEPS_S = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1_800, 3_600, 7_200, 10_800, 21_600, 43_200];
const STEPS_DAYS = [1, 2, 7, 14, 28, 91, 182, 364, 1_820, 3_640, 36_400, 364_000];
const STEPS_MS = [...STEPS_S.map((each) => each * 1_000), ...STEPS_DAYS.map((each) => each * DAY_MS)];

/** Return the milliseconds of a length of time as declarations have it: "5 minutes". */
export function lengthMs(text) {
  const [, count, unit] = /^(\d+) (\w+?)s?$/.exec(text);
  return Number(count) * UNIT_MS[unit];
}

/** Return a time of a row for reading: 2026-11-25 09:00:04, with milliseconds where it has some. */
export const timeText = (time) => time.replace("T", " ").replace(/(\.000)?Z$/, "");

/** Return whether a row says of which window it is: what somebody's own `show` makes of one need not. */
export const isOfWindow = (row) => [row?.windowStart, row?.windowEnd].every((time) => typeof time === "string" && !Number.isNaN(Date.parse(time)));

/** Return from when to when a window is; the day once where it is the same. */
export function spanText({ windowStart, windowEnd }, to = "–\u00a0") {
  const [start, end] = [timeText(windowStart), timeText(windowEnd)];
  return `${start} ${to}${end.startsWith(start.slice(0, 11)) ? end.slice(11) : end}`;
}

/** Return times for an axis, at most so many: [ms, label, further label where the day, or the year, is another one]. */
export function timeTicks(fromMs, toMs, most) {
  const stepMs = STEPS_MS.find((each) => (toMs - fromMs) / each <= most) ?? STEPS_MS.at(-1);
  const ticks = [];
  let before = "";
  for (let at = Math.ceil(fromMs / stepMs) * stepMs; at <= toMs; at += stepMs) {
    const [label, further] = labels(new Date(at), stepMs);
    ticks.push([at, label, further === before ? "" : further]);
    before = further;
  }
  return ticks;
}

function labels(date, stepMs) {
  const day = `${date.getUTCDate()} ${MONTHS[date.getUTCMonth()]}`;
  if (stepMs >= DAY_MS) return [day, String(date.getUTCFullYear())];
  return [date.toISOString().slice(11, stepMs < UNIT_MS.minute ? 19 : 16), day];
}
