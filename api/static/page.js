// The page of a topology that has none of its own.
//
//   #/, #/stores                            the stores, and the rows of the first     ─┐
//   #/stores/counts-store                   the rows of one                            ├─ fed by the rows
//   #/cluster, #/topology                   the cluster, the topology                 ─┘
//   #/stores/counts-store/keys/hello        one row                                   ─── fed by the stream of this row

import { Cluster } from "./cluster.js";
import { Frame } from "./frame.js";
import { Stores } from "./stores.js";
import { Views } from "./views.js";

const cluster = new Cluster();
const stores = new Stores(document.title);
const frame = new Frame({ hosts: () => cluster.hosts, again: () => views.feed(true), hold: (held) => stores.hold(held) });
const views = new Views(frame, {
  title: document.title,
  route: (hash) => {
    const view = stores.route(hash) ?? stores.route("#/stores");
    const [, name] = /^#\/(cluster|topology)$/.exec(hash) ?? [];
    return name ? { ...view, name } : { ...view, isFirst: view.name === "stores" };
  },
  open: (view) => stores.open(view),
  run: (view, signal, tell) => stores.run(view, signal, tell),
  locate: (view, signal) => stores.locate(view, signal),
  refused: (view, text) => stores.refused(view, text),
});

views.begin();
cluster.run(new AbortController().signal, () => !document.hidden && !frame.refused, () => views.locate());
