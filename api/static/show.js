// What every part of a page shows with: elements and numbers.

export const byId = (id) => document.getElementById(id);

/** Return where an instance is, as `location.host` has it. */
export const address = ({ host, port }) => `${host.includes(":") ? `[${host}]` : host}:${port}`;

/** Make an element. Children are elements or text; nothing is ever read as HTML, since what is shown may come from anybody. */
export function make(tag, { className, ...attributes } = {}, ...children) {
  const element = document.createElement(tag);
  if (className) element.className = className;
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

/** Have an element hold these children, in this order. The focus stays where it is while its element does. */
export function arrange(parent, children) {
  const focused = parent.contains(document.activeElement) ? document.activeElement : null;
  const place = focused ? Array.from(parent.children).findIndex((child) => child.contains(focused)) : -1;
  const kept = new Set(children);
  for (const child of Array.from(parent.children)) if (!kept.has(child)) child.remove();
  children.forEach((child, index) => {
    if (parent.children[index] !== child) parent.insertBefore(child, parent.children[index] ?? null);
  });
  if (focused && document.activeElement !== focused) heirOf(focused, place, parent)?.focus({ preventScroll: true });
}

/** Return what has the focus after an element that was moved or is gone: a link to the same, else what stands in its place. */
function heirOf(focused, place, parent) {
  if (parent.contains(focused)) return focused;
  const links = Array.from(parent.querySelectorAll("a"));
  return links.find((link) => link.href === focused.href) ?? parent.children[Math.min(place, parent.childElementCount - 1)]?.querySelector("a");
}

/** Return a text as it is searched: without accents, and in small letters. */
export const folded = (text) => text.normalize("NFKD").replace(/\p{M}/gu, "").toLowerCase();

/** Set a text only when it differs, so that no status is read out twice. */
export function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

const plain = new Intl.NumberFormat(undefined, { maximumFractionDigits: 3 });
const huge = new Intl.NumberFormat(undefined, { notation: "scientific", maximumSignificantDigits: 6 });

export const number = (value) => (Math.abs(value) < 1e15 ? plain : huge).format(value);

export function duration(ms) {
  const s = Math.round(ms / 1000);
  if (s < 120) return `${s} s`;
  return s < 7200 ? `${Math.round(s / 60)} min` : `${Math.round(s / 3600)} h`;
}

export const plural = (count, one, many = `${one}s`) => `${number(count)} ${count === 1 ? one : many}`;
