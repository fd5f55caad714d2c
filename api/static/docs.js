// The routes of openapi.json: parameters, answers, examples, and a form that asks.

import { ask, askJson, isExpected, reached, textOf, token } from "./ask.js";
import { byId, make, say } from "./show.js";

const STREAM_MS = 3_000;
const SHOWN_CHARACTERS = 20_000;

function operations(document) {
  return Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({
      path,
      method,
      anchor: `route${path.replace(/\W+/g, "-")}`,
      tag: operation.tags?.[0] ?? "more",
      ...operation,
    })),
  );
}

function show(document) {
  say(byId("lead"), `${document.info.summary}. Errors are application/problem+json and say what to do.`);
  const found = operations(document);
  for (const tag of [...new Set(found.map((each) => each.tag))].sort()) {
    const tagged = found.filter((each) => each.tag === tag);
    const links = tagged.map((each) => make("li", {}, make("a", { href: `#${each.anchor}` }, make("code", {}, each.path))));
    byId("contents").append(make("h2", {}, tag), make("ul", {}, ...links));
    byId("routes").append(make("h2", {}, tag), ...tagged.map(article));
  }
}

function article(operation) {
  const title = `${operation.anchor}-title`;
  const head = make("h3", { id: title }, make("span", { className: "method" }, operation.method.toUpperCase()), make("code", {}, operation.path));
  const parts = [head, make("p", {}, operation.summary ?? "")];
  if (operation.parameters?.length) parts.push(parameterTable(operation.parameters));
  parts.push(answerTable(operation.responses), ...examples(operation.responses), ...trying(operation));
  return make("article", { id: operation.anchor, "aria-labelledby": title }, ...parts);
}

/** Return the parts of a text, with `what stands in these` as code. */
const marked = (text) => text.split("`").map((part, index) => (index % 2 ? make("code", {}, part) : part));

function table(caption, names, rows) {
  const head = make("tr", {}, ...names.map((name) => make("th", { scope: "col" }, name)));
  const body = rows.map(([first, ...rest]) => make("tr", {}, make("th", { scope: "row" }, first), ...rest.map((each) => make("td", {}, each))));
  return make("table", {}, make("caption", {}, caption), make("thead", {}, head), make("tbody", {}, ...body));
}

function parameterTable(parameters) {
  return table(
    "Parameters",
    ["Name", "Kind", "Meaning"],
    parameters.map(({ name, in: where, schema, description }) => [make("code", {}, name), `${where}, ${kindOf(schema)}`, make("span", {}, ...marked(description ?? ""))]),
  );
}

function kindOf({ type = "any", format, minimum, maximum, default: preset }) {
  const range = minimum === undefined ? "" : maximum === undefined ? `, from ${minimum}` : `, ${minimum} to ${maximum}`;
  return `${format ?? type}${range}${preset === undefined || preset === null ? "" : `, ${preset} if left out`}`;
}

function answerTable(responses) {
  return table(
    "Answers",
    ["Status", "When, and what comes with it"],
    Object.entries(responses).map(([status, { description, headers = {} }]) => {
      const items = Object.entries(headers).map(([name, of]) => make("li", {}, make("code", {}, name), " ", ...marked(of.description ?? "")));
      const text = make("p", {}, ...marked(description));
      return [status, items.length ? make("div", {}, text, make("ul", {}, ...items)) : text];
    }),
  );
}

function examples(responses) {
  return Object.values(responses).flatMap(({ content = {} }) =>
    Object.entries(content)
      .filter(([, { example }]) => example !== undefined)
      .map(([type, { example }]) => {
        const text = typeof example === "string" ? example : JSON.stringify(example, null, 1);
        return make("div", {}, make("h4", {}, "Example"), make("pre", { tabindex: "0", "aria-label": `Example, ${type}` }, text));
      }),
  );
}

function trying({ path, parameters = [] }) {
  const fields = parameters.map(({ name, in: where, example, schema }) => {
    const value = example ?? schema.examples?.[0] ?? (where === "path" ? "1" : "");
    const input = make("input", { name, value: String(value), autocomplete: "off", spellcheck: "false", "data-in": where });
    if (where === "path") input.required = true;
    return make("label", {}, name, input);
  });
  const output = make("pre", { tabindex: "0", "aria-label": `Answer of ${path}`, hidden: "" });
  const form = make("form", { className: "try", "aria-label": `Try ${path}` }, ...fields, make("button", { type: "submit" }, "Ask"));
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    output.hidden = false;
    await send(addressOf(path, form), output);
  });
  return [form, output];
}

function addressOf(path, form) {
  const inputs = [...form.querySelectorAll("input")];
  let address = path.slice(1);
  for (const { name, value } of inputs.filter((each) => each.dataset.in === "path")) {
    address = address.replace(`{${name}}`, encodeURIComponent(value));
  }
  const query = new URLSearchParams(inputs.filter((each) => each.dataset.in === "query" && each.value).map(({ name, value }) => [name, value]));
  return query.size ? `${address}?${query}` : address;
}

async function send(address, output) {
  const auth = token.get() ? ' -H "Authorization: Bearer $TOKEN"' : "";
  const lines = [`curl -s${auth} '${new URL(address, document.baseURI)}'`, ""];
  try {
    const response = await ask(address);
    lines.push(`${response.status} ${response.headers.get("content-type")}`, await bodyOf(response));
  } catch (error) {
    if (!isExpected(error)) throw error;
    lines.push(`${error.status ?? "no answer"}`, error.message);
  }
  output.textContent = lines.join("\n");
}

/** Return the body; of one that goes on, what comes in the first seconds. */
async function bodyOf(response) {
  if (!response.headers.get("content-type")?.startsWith("text/event-stream")) return (await textOf(response)).slice(0, SHOWN_CHARACTERS);
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  const stop = setTimeout(() => reader.cancel(), STREAM_MS);
  while (text.length < SHOWN_CHARACTERS) {
    const { done, value } = await reached(reader.read());
    if (done) break;
    text += value;
  }
  clearTimeout(stop);
  await reader.cancel();
  return text.slice(0, SHOWN_CHARACTERS);
}

show(await askJson("openapi.json"));
