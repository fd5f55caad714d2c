// Puts the page together: which view is shown, what feeds it, and how the connection is.
//
//   #/             all games      ─┐
//   #/cluster      the cluster     ├─ fed by the stream of all boards, or by pages of them
//   #/topology     the topology   ─┘
//   #/game/6       one game       ─── fed by the stream of its board        ?game=6 leads there as well
//
// One stream at a time: browsers open six connections to an origin, and a page may be open in several tabs.

import { isExpected, token } from "./ask.js";
import { Cluster } from "./cluster.js";
import { Game } from "./game.js";
import { Games, isId, linkTo } from "./games.js";
import { Announcer, address, byId, duration, make, say } from "./show.js";

const VIEWS = ["games", "game", "cluster", "topology"];
const NOTICE_AFTER_MS = 1_500;
const HIDDEN_MS = 60_000;

const announcer = new Announcer(byId("announcer"));
const games = new Games(announcer);
const game = new Game(announcer);
const cluster = new Cluster();

const connection = { state: "starting", sinceMs: performance.now(), freshMs: null, freshAt: null };
let view = null;
let feeding = new AbortController();
let fedBy = null;
let paused = false;
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
  become("starting");
  const { signal } = feeding;
  const tell = (state, refusal) => signal.aborted || become(state, refusal);
  if (wanted === "all") return void games.run(signal, tell);
  if (!isId(wanted)) return game.explain(`“${wanted}” is no game's id. Ids are whole numbers, such as 6.`);
  game.run(signal, tell);
  locate();
}

async function locate() {
  if (view.name !== "game" || !isId(view.id)) return;
  // Without an answer the line stays as it was; the connection's state says the rest.
  await game.locate(feeding.signal).catch((error) => {
    if (!isExpected(error)) throw error;
  });
}

const TEXTS = { starting: "Connecting", live: "Live", lost: "Connection lost, trying again", refused: "Token needed", final: "No answer" };

function become(state, refusal) {
  if (state === "live") {
    connection.freshMs = performance.now();
    connection.freshAt = new Date();
    if (connection.state === "live") return;
  }
  if (state !== connection.state) connection.sinceMs = performance.now();
  // While it is being tried again, it is still lost.
  if (state === "starting" && connection.state === "lost") return;
  connection.state = state;
  if (state === "final" && view.name === "game") game.explain(refusal.message);
  byId("token-form").hidden = state !== "refused";
  if (state === "refused") say(byId("token-text"), token.get() ? `It was refused. ${refusal.message}` : refusal.message);
  tick();
}

/** Show how the connection is, and how old what is seen is. */
function tick() {
  const { state, sinceMs, freshMs, freshAt } = connection;
  byId("state").dataset.state = paused && state === "live" ? "paused" : state;
  say(byId("state-text"), paused && state === "live" ? "Paused" : TEXTS[state]);
  const lost = state === "lost" && performance.now() - sinceMs > NOTICE_AFTER_MS;
  say(byId("age"), lost && freshMs !== null ? `${duration(performance.now() - freshMs)} old` : "");
  byId("notice").hidden = !lost;
  if (!lost) return;
  const since = freshAt ? ` What you see is from ${freshAt.toLocaleTimeString()}.` : "";
  say(byId("notice-text"), `The service does not answer here; the page tries again by itself.${since}${others().length ? " Other instances may still answer:" : ""}`);
  showOthers();
}

/** Return the other instances; the page never goes to one by itself: it could be another network's. */
function others() {
  return cluster.hosts.map(address).filter((each) => each !== location.host);
}

function showOthers() {
  const key = others().join(" ");
  const list = byId("notice-hosts");
  if (list.dataset.key === key) return;
  list.dataset.key = key;
  // Advertised addresses are reached from here only when this page came from one of them.
  const reached = cluster.hosts.some((host) => address(host) === location.host);
  list.replaceChildren(
    ...others().map((each) => make("li", {}, reached ? make("a", { href: `${location.protocol}//${each}/${location.hash}` }, each) : each)),
  );
}

function pauseOrGoOn() {
  paused = !paused;
  byId("pause").setAttribute("aria-pressed", String(paused));
  games.hold(paused);
  game.hold(paused);
  tick();
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

byId("token-form").addEventListener("submit", (event) => {
  event.preventDefault();
  token.set(byId("token").value.trim());
  byId("token").value = "";
  byId("forget").hidden = false;
  feed(true);
});
byId("forget").addEventListener("click", () => {
  token.forget();
  byId("forget").hidden = true;
  feed(true);
});
byId("pause").addEventListener("click", pauseOrGoOn);
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  byId("main").focus();
});
byId("forget").hidden = !token.get();
addEventListener("keydown", key);
addEventListener("hashchange", go);
document.addEventListener("visibilitychange", seenOrNot);
// A page that the browser keeps for the way back would keep its connection as well.
addEventListener("pagehide", letGo);
addEventListener("pageshow", (event) => event.persisted && feed());
setInterval(tick, 1_000);

const asked = new URLSearchParams(location.search).get("game");
if (asked && !location.hash) history.replaceState(null, "", linkTo(asked));
go();
const maySee = () => !document.hidden && connection.state !== "refused";
cluster.run(new AbortController().signal, maySee, locate);
