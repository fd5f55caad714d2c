// The page of a topology that has none of its own: its stores, the cluster, the topology.
//
//   #/             the stores, asked for every few seconds
//   #/cluster      the cluster
//   #/topology     the topology

import { keepTrying, pause } from "./ask.js";
import { Cluster } from "./cluster.js";
import { Frame } from "./frame.js";
import { byId } from "./show.js";
import { Stores } from "./stores.js";

const VIEWS = ["stores", "cluster", "topology"];
const EVERY_MS = 2_000;
const NAME = document.title;

const stores = new Stores();
const cluster = new Cluster();
const frame = new Frame({ hosts: () => cluster.hosts, again: feed, hold: (held) => stores.hold(held) });
let feeding = new AbortController();

function go() {
  const [, asked] = /^#\/(\w+)$/.exec(location.hash) ?? [];
  const name = VIEWS.includes(asked) ? asked : "stores";
  for (const each of VIEWS) byId(each).hidden = each !== name;
  for (const link of document.querySelectorAll("[data-view]")) {
    if (link.dataset.view === name) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  const title = byId(`${name}-title`);
  document.title = name === "stores" ? NAME : `${title.textContent} · ${NAME}`;
  return title;
}

/** Ask for the stores again and again, from now on with the token there is. */
function feed() {
  feeding.abort();
  feeding = new AbortController();
  const { signal } = feeding;
  frame.become("starting");
  keepTrying(
    signal,
    async (live) => {
      while (!signal.aborted) {
        if (!document.hidden) {
          await stores.look(signal);
          live();
        }
        await pause(EVERY_MS, signal);
      }
    },
    (state, refusal) => signal.aborted || frame.become(state, refusal),
  );
}

addEventListener("hashchange", () => {
  go().focus();
  scrollTo(0, 0);
});
go();
feed();
cluster.run(new AbortController().signal, () => !document.hidden && !frame.refused, () => {});
