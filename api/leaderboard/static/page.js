// Puts the page together: which view is shown, what feeds it, and how the connection is.
//
//   #/             all games      ─┐
//   #/cluster      the cluster     ├─ fed by the stream of all boards, or by pages of them
//   #/topology     the topology   ─┘
//   #/game/6       one game       ─── fed by the stream of its board        ?game=6 leads there as well
//
// One stream at a time: browsers open six connections to an origin, and a page may be open in several tabs.

import { isExpected, readAsText } from "./ask.js";
import { Cluster } from "./cluster.js";
import { Frame } from "./frame.js";
import { Game } from "./game.js";
import { Games, isId, linkTo } from "./games.js";
import { Announcer } from "./entries.js";
import { byId } from "./show.js";

const VIEWS = ["games", "game", "cluster", "topology"];
const HIDDEN_MS = 60_000;

readAsText("productId", "playerId");
const announcer = new Announcer(byId("announcer"));
const games = new Games(announcer);
const game = new Game(announcer);
const cluster = new Cluster("leaderboard_score_events_total", "Scores read");

const frame = new Frame({
  hosts: () => cluster.hosts,
  again: () => feed(true),
  hold: (held) => {
    games.hold(held);
    game.hold(held);
  },
});
let view = null;
let feeding = new AbortController();
let fedBy = null;
let hiddenTimer = 0;

function route() {
  const [, name, id] = /^#\/(\w+)(?:\/(.*))?$/.exec(location.hash) ?? [];
  if (name === "game" && id) return { name, id };
  return { name: name === "cluster" || name === "topology" ? name : "games" };
}

function go() {
  const next = route();
  const came = view;
  view = next;
  for (const each of VIEWS) byId(each).hidden = each !== next.name;
  for (const link of document.querySelectorAll("[data-view]")) {
    if (link.dataset.view === next.name) link.setAttribute("aria-current", "page");
    else if (link.dataset.view === "games" && next.name === "game") link.setAttribute("aria-current", "true");
    else link.removeAttribute("aria-current");
  }
  announcer.clear();
  if (next.name === "game") game.open(next.id, games.nameOf(next.id));
  const title = byId(`${next.name}-title`);
  document.title = next.name === "games" ? "Leaderboard" : `${title.textContent} · Leaderboard`;
  feed();
  if (came) focusAfter(came, next, title);
}

/** After a step back the focus is on the game that one comes from, else on the title of the view. */
function focusAfter(came, next, title) {
  const link = came.name === "game" && next.name === "games" && byId("cards").querySelector(`a[href="${CSS.escape(linkTo(came.id))}"]`);
  (link || title).focus({ preventScroll: !link });
  if (!link) scrollTo(0, 0);
}

/** Have the view fed by what it needs; what feeds it already goes on. */
function feed(again = false) {
  const wanted = view.name === "game" ? view.id : "all";
  if (wanted === fedBy && !again) return;
  feeding.abort();
  feeding = new AbortController();
  fedBy = wanted;
  tell("starting");
  const { signal } = feeding;
  const told = (state, refusal) => signal.aborted || tell(state, refusal);
  if (wanted === "all") return void games.run(signal, told);
  if (!isId(wanted)) return game.explain(`“${wanted}” is no game's id. Ids are whole numbers, such as 6.`);
  game.run(signal, told);
  locate();
}

async function locate() {
  if (view.name !== "game" || !isId(view.id)) return;
  // Without an answer the line stays as it was; the connection's state says the rest.
  await game.locate(feeding.signal).catch((error) => {
    if (!isExpected(error)) throw error;
  });
}

function tell(state, refusal) {
  frame.become(state, refusal);
  if (state === "final" && view.name === "game") game.explain(refusal.message);
}

function key(event) {
  if (event.key !== "Escape" || event.defaultPrevented || view.name === "games") return;
  if (event.target.matches("input")) return;
  location.hash = "#/";
}

/** A page that nobody sees lets its connection go after a while. */
function seenOrNot() {
  clearTimeout(hiddenTimer);
  if (document.hidden) hiddenTimer = setTimeout(letGo, HIDDEN_MS);
  else if (fedBy === null) feed();
}

/** Close the stream; `feed` opens it again. */
function letGo() {
  feeding.abort();
  fedBy = null;
}

addEventListener("keydown", key);
addEventListener("hashchange", go);
document.addEventListener("visibilitychange", seenOrNot);
// A page that the browser keeps for the way back would keep its connection as well.
addEventListener("pagehide", letGo);
addEventListener("pageshow", (event) => event.persisted && feed());

const asked = new URLSearchParams(location.search).get("game");
if (asked && !location.hash) history.replaceState(null, "", linkTo(asked));
go();
const maySee = () => !document.hidden && !frame.refused;
cluster.run(new AbortController().signal, maySee, locate);
