// What names a row of a store: its key, of a store with windows the key and the window's start: hello@1795622400000. A
// key of two parts has a slash between them.

export const isText = ({ key }) => key.type === "text";
/** Return the names of the columns that a store's key is in. */
export const columnsOfKey = ({ key }) => key.name.split("/");

const typesOf = ({ key }) => key.type.split("/");
/** Return the columns of a store's key: names and types. */
export const keyColumnsOf = (store) => columnsOfKey(store).map((name, index) => ({ name, type: typesOf(store)[index] }));

/** Return the parts of a key's text: itself, or two of which one is a number. */
function partsOf(store, text) {
  const [type, ...others] = typesOf(store);
  if (!others.length) return [text];
  const at = type === "text" ? text.lastIndexOf("/") : text.indexOf("/");
  return at < 0 ? [text] : [text.slice(0, at), text.slice(at + 1)];
}

/** Return whether a text is a whole number of 64 bits, as keys have it. */
export const isInteger = (text) => /^(0|-?[1-9]\d{0,18})$/.test(text) && BigInt.asIntN(64, BigInt(text)) === BigInt(text);

const isPart = (type, text) => (type === "text" ? text !== "" : isInteger(text));

export function isKey(store, text) {
  const [types, parts] = [typesOf(store), partsOf(store, text)];
  return parts.length === types.length && parts.every((part, index) => isPart(types[index], part));
}

const byNumbers = (a, b) => (BigInt(a) < BigInt(b) ? -1 : Number(a !== b));

/** Order texts as stores do: JavaScript's own order has what is beyond U+FFFF before U+E000. */
function byCodePoints(a, b) {
  const [x, y] = [Array.from(a), Array.from(b)];
  const at = x.findIndex((character, index) => character !== y[index]);
  if (at < 0) return x.length - y.length;
  return at >= y.length ? 1 : x[at].codePointAt(0) - y[at].codePointAt(0);
}

/** Return the order of the keys of a store. */
export function orderOfKeys(store) {
  const [first, second] = typesOf(store).map((type) => (type === "text" ? byCodePoints : byNumbers));
  if (!second) return first;
  return (a, b) => {
    const [[one, other], [same, further]] = [partsOf(store, a), partsOf(store, b)];
    return first(one, same) || second(other, further);
  };
}

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
  const parts = columnsOfKey(store).map((name) => row?.[name]);
  if (parts.includes(undefined)) return undefined;
  const key = parts.length > 1 ? parts.join("/") : parts[0];
  if (!store.window) return key;
  const start = Date.parse(row.windowStart);
  return Number.isNaN(start) ? undefined : `${key}@${start}`;
}
