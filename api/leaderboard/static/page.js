// Puts the page together: which view is shown, what feeds it, and how the connection is.
//
//   #/                         all games      ─┐
//   #/cluster, #/topology      …               ├─ fed by the stream of all boards, or by pages of them
//   #/players                  find a player   ─┘
//   #/players/3, #/players/3/6 one player      ─── fed by the stream of the rank on one game
//   #/game/6                   one game       ─── fed by the stream of its board        ?game=6 leads there as well
//   #/stores, …                the stores     ─── as on the page of every topology

import { readAsText } from "./ask.js";
import { Cluster } from "./cluster.js";
import { Frame } from "./frame.js";
import { Game } from "./game.js";
import { Games, linkTo } from "./games.js";
import { Announcer } from "./entries.js";
import { isInteger } from "./names.js";
import { Period } from "./period.js";
import { Players } from "./players.js";
import { byId } from "./show.js";
import { Stores } from "./stores.js";
import { Views } from "./views.js";

const TITLE = "Leaderboard";

readAsText("productId", "playerId");
const announcer = new Announcer(byId("announcer"));
const period = new Period(() => {
  announcer.clear();
  games.begin();
  if (views.shown.name === "game") game.open(views.shown.id, games.nameOf(views.shown.id));
  views.feed(true);
});
const games = new Games(announcer, period);
const game = new Game(announcer, period);
const players = new Players(announcer);
const stores = new Stores(TITLE);
const cluster = new Cluster("leaderboard_score_events_total", "Scores read");

const frame = new Frame({
  hosts: () => cluster.hosts,
  again: () => views.feed(true),
  hold: (held) => [games, game, players, stores].forEach((each) => each.hold(held)),
});

const views = new Views(frame, {
  title: TITLE,
  route: (hash) => {
    const [, name, id] = /^#\/(\w+)(?:\/(.*))?$/.exec(hash) ?? [];
    if (name === "game" && id) return { name, id, fed: `game ${id}`, within: "games", back: "#/" };
    if (name === "players") {
      const [player, on] = (id ?? "").split("/");
      if (!player) return { name, fed: "games", back: "#/" };
      return { name, id: player, on, fed: `player ${player} ${on ?? ""}`, within: "players", back: "#/players" };
    }
    if (name === "cluster" || name === "topology") return { name, fed: "games" };
    return stores.route(hash) ?? { name: "games", fed: "games", isFirst: true };
  },
  open: (view) => {
    announcer.clear();
    period.show(view.name === "games" || view.name === "game");
    if (view.name === "game") game.open(view.id, games.nameOf(view.id));
    else if (view.name === "players") players.open(view.id, view.on);
    else stores.open(view);
  },
  run: (view, signal, tell) => {
    if (view.fed === "games") return games.run(signal, tell);
    if (view.name === "players") {
      if (isInteger(view.id) && isInteger(view.on ?? "0")) return players.run(signal, tell);
      return players.explain(`“${view.id}” is no player's id. Ids are whole numbers, such as 3.`);
    }
    if (view.name !== "game") return stores.run(view, signal, tell);
    if (!isInteger(view.id)) return game.explain(`“${view.id}” is no game's id. Ids are whole numbers, such as 6.`);
    return game.run(signal, tell);
  },
  locate: (view, signal) => {
    if (view.name === "players") return undefined;
    if (view.name !== "game") return stores.locate(view, signal);
    return isInteger(view.id) ? game.locate(signal) : undefined;
  },
  refused: (view, text) => {
    if (view.name === "game") game.explain(text);
    else if (view.name === "players") players.explain(text);
    else stores.refused(view, text);
  },
});

const asked = new URLSearchParams(location.search).get("game");
if (asked && !location.hash) history.replaceState(null, "", linkTo(asked));
views.begin();
cluster.run(new AbortController().signal, () => !document.hidden && !frame.refused, () => views.locate());
