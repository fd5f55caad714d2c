// What names a row of a store: its key, of a store with windows the key and the window's start: hello@1795622400000.

export const isText = ({ key }) => key.type === "text";
export const isKey = (store, text) => (isText(store) ? text !== "" : /^(0|-?[1-9]\d{0,18})$/.test(text));

const byNumbers = (a, b) => (BigInt(a) < BigInt(b) ? -1 : Number(a !== b));

/** Order texts as stores do: JavaScript's own order has what is beyond U+FFFF before U+E000. */
function byCodePoints(a, b) {
  const [x, y] = [Array.from(a), Array.from(b)];
  const at = x.findIndex((character, index) => character !== y[index]);
  if (at < 0) return x.length - y.length;
  return at >= y.length ? 1 : x[at].codePointAt(0) - y[at].codePointAt(0);
}

/** Return the order of the keys of a store. */
export const orderOfKeys = (store) => (isText(store) ? byCodePoints : byNumbers);

/** Return the key in a row's name. */
export const keyOf = (store, name) => (store.window ? name.slice(0, name.lastIndexOf("@")) : name);

const startOf = (name) => Number(name.slice(name.lastIndexOf("@") + 1));

/** Return the order of the names of a store's rows. */
export function orderOfNames(store) {
  const order = orderOfKeys(store);
  if (!store.window) return order;
  return (a, b) => order(keyOf(store, a), keyOf(store, b)) || startOf(a) - startOf(b);
}

/** Return the name of a row; undefined where a row does not tell. */
export function nameOf(store, row) {
  const key = row?.[store.key.name];
  if (key === undefined || !store.window) return key;
  const start = Date.parse(row.windowStart);
  return Number.isNaN(start) ? undefined : `${key}@${start}`;
}
