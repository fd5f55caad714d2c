// Keys and values as they are shown: as text, whatever is in them.

const CHANGED_MS = 2_000;

/** Return the text of a key, with escapes for what could not be seen. */
export const keyText = (key) => key.replace(/[\0-\x1f\x7f]|^\s|\s$/g, escaped);

function escaped(hidden) {
  if (hidden === "\n") return "\\n";
  return `\\u${hidden.charCodeAt(0).toString(16).padStart(4, "0")}`;
}

/** Return a value of a row as text. */
export function cellText(value) {
  if (value === undefined || value === null) return "–";
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}

/** Mark an element for a moment. */
export function mark(element) {
  element.classList.add("changed");
  setTimeout(() => element.classList.remove("changed"), CHANGED_MS);
}
