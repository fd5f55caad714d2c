// Players: one is found by id or name; where the player stands on every game, and who is around on one of them, live.

import { askJson, isExpected, keepTrying, pause, readEvents } from "./ask.js";
import { isInteger } from "./names.js";
import { arrange, byId, folded, make, number, plural, say } from "./show.js";

const AROUND = 5;
const MOST_GAMES = 100;
const MOST_FOUND = 12;
const LOOK_AGAIN_MS = 10_000;
const NAMES_KEPT_MS = 10_000;

const linkTo = (id, game) => `#/players/${id}${game === undefined ? "" : `/${game}`}`;

export class Players {
  #announcer;
  #names; // Brings those on a podium, as they were some seconds ago: one request for all that is typed meanwhile.
  #namesUntilMs = 0;
  #id;
  #game;
  #name = "";
  #rank = null; // As it is shown.
  #told = null; // What is to be shown next.
  #renewing = false;
  #held = false;

  constructor(announcer) {
    this.#announcer = announcer;
    byId("players-form").addEventListener("submit", (event) => this.#submit(event));
    byId("players-search").addEventListener("input", () => this.#find());
  }

  /** Begin with a player on a game; without one with nobody, or with the game where the player stands best. */
  open(id, game) {
    if (id !== this.#id) {
      byId("standings-rows").replaceChildren();
      this.#name = "";
    }
    this.#id = id;
    this.#game = game;
    this.#rank = this.#told = null;
    byId("around-rows").replaceChildren();
    byId("around").hidden = true;
    byId("standings").hidden = id === undefined;
    this.explain("");
    say(byId("players-title"), id === undefined ? "Players" : this.#name || `Player ${id}`);
    this.#find();
  }

  /** Show what comes until `signal`. */
  run(signal, tell) {
    return keepTrying(signal, (live) => this.#attempt(signal, live), tell);
  }

  hold(held) {
    this.#held = held;
    this.#renew();
  }

  explain(text) {
    say(byId("player-empty"), text);
    byId("player-empty").hidden = !text;
  }

  async #attempt(signal, live) {
    const { name } = await askJson(`tables/players/keys/${this.#id}`, { signal });
    this.#name = name;
    say(byId("players-title"), name);
    document.title = `${name} · Leaderboard`;
    const ranks = await this.#ranks(signal);
    live();
    const game = this.#game ?? ranks.toSorted((a, b) => b.percentile - a.percentile)[0]?.productId;
    this.#drawRanks(ranks, game);
    if (game === undefined) {
      this.explain(`${name} has no score yet. The first one shows here.`);
      await pause(LOOK_AGAIN_MS, signal);
      return;
    }
    const { gameName } = ranks.find((rank) => rank.productId === game) ?? { gameName: `Game ${game}` };
    const told = (event, rank) => {
      this.#told = { signal, rank: event === "rank" ? rank : null, game, gameName };
      this.#renew();
    };
    await readEvents(`leaderboard/${game}/players/${this.#id}/events`, { signal, opened: live, told });
  }

  /** Return where the player stands on the games that there are. */
  async #ranks(signal) {
    const boards = await askJson(`leaderboard?limit=1&page_size=${MOST_GAMES}`, { signal });
    const asked = Object.entries(boards).map(async ([productId, [{ gameName }]]) => {
      try {
        return { productId, gameName, ...(await askJson(`leaderboard/${productId}/players/${this.#id}`, { signal })) };
      } catch (error) {
        if (!isExpected(error) || error.status !== 404) throw error;
        return null; // Not played.
      }
    });
    return (await Promise.all(asked)).filter(Boolean);
  }

  /** Show what was told last: one after the other, since each asks for a hundred ranks, and a rank may change each second. */
  async #renew() {
    if (this.#renewing) return;
    this.#renewing = true;
    try {
      while (this.#told && !this.#held) {
        const told = this.#told;
        this.#told = null;
        this.#showRank(told);
        const answers = await this.#answersOf(told);
        if (told.signal.aborted) continue;
        if (this.#held) this.#told ??= told;
        else if (answers) this.#drawRank(told, answers);
      }
    } finally {
      this.#renewing = false;
    }
  }

  #showRank({ rank, gameName }) {
    const before = this.#rank;
    this.#rank = rank;
    if (rank && before && before.rank !== rank.rank) {
      this.#announcer.changed(gameName, `${rank.playerName} is number ${rank.rank} of ${rank.of} in ${gameName} now.`);
    }
    this.explain(rank ? "" : `${this.#name} has no rank in ${gameName}.`);
    if (!rank) byId("around").hidden = true;
  }

  /** Return who is around and where the player stands; null where nobody answers. */
  async #answersOf({ signal, rank, game }) {
    try {
      const around = rank ? await askJson(`leaderboard/${game}/players/${this.#id}?around=${AROUND}`, { signal }) : [];
      return { around, ranks: await this.#ranks(signal) };
    } catch (error) {
      // The next event asks again, and the connection's state says the rest.
      if (!isExpected(error)) throw error;
      return null;
    }
  }

  #drawRank({ rank, game, gameName }, { around, ranks }) {
    if (rank) this.#drawAround(around, game, gameName);
    this.#drawRanks(ranks, game);
  }

  #drawRanks(ranks, game) {
    byId("standings").hidden = !ranks.length;
    arrange(byId("standings-rows"), ranks.map((rank) => this.#standing(rank, rank.productId === game)));
  }

  #standing(rank, isShown) {
    const rows = Array.from(byId("standings-rows").children);
    const row = rows.find(({ dataset }) => dataset.product === rank.productId) ?? makeStanding(rank.productId, linkTo(this.#id, rank.productId));
    const [link] = row.getElementsByTagName("a");
    say(link, rank.gameName);
    if (isShown) link.setAttribute("aria-current", "true");
    else link.removeAttribute("aria-current");
    const texts = [`${number(rank.rank)} of ${number(rank.of)}`, `${number(rank.percentile)} %`, number(rank.score)];
    texts.forEach((text, index) => say(row.children[index + 1], text));
    return row;
  }

  #drawAround(around, game, gameName) {
    byId("around").hidden = false;
    say(byId("around-caption"), `Around ${this.#name} in ${gameName}`);
    const rows = new Map(Array.from(byId("around-rows").children, (row) => [row.dataset.player, row]));
    const drawn = around.map((rank) => {
      const row = rows.get(rank.playerId) ?? makeNeighbour(rank.playerId, linkTo(rank.playerId, game));
      if (rank.playerId === this.#id) row.setAttribute("aria-current", "true");
      else row.removeAttribute("aria-current");
      say(row.children[0], number(rank.rank));
      say(row.getElementsByTagName("a")[0], rank.playerName);
      say(row.children[2], number(rank.score));
      return row;
    });
    arrange(byId("around-rows"), drawn);
  }

  // Finding a player

  async #submit(event) {
    event.preventDefault();
    const text = byId("players-search").value.trim();
    if (isInteger(text)) {
      location.hash = linkTo(text);
      return;
    }
    await this.#find();
    if (text === byId("players-search").value.trim() && !byId("players").hidden) byId("players-found").querySelector("a")?.click();
  }

  async #find() {
    const text = byId("players-search").value.trim();
    const found = text && !isInteger(text) ? await this.#named(text) : [];
    if (text !== byId("players-search").value.trim()) return; // Another search has begun meanwhile.
    const links = found.slice(0, MOST_FOUND).map(([id, name]) => make("li", {}, make("a", { href: linkTo(id) }, name)));
    byId("players-found").replaceChildren(...links);
    const hint = isInteger(text) ? "Enter shows this player." : "By name those are found who are on a podium of all time; by id everybody is.";
    say(byId("players-hint"), text && !isInteger(text) && found.length ? `${plural(found.length, "player")} found.` : hint);
  }

  /** Return the players on podiums of all time whose names have a text in them: ids with names. */
  async #named(text) {
    if (Date.now() > this.#namesUntilMs) {
      this.#names = askJson(`leaderboard?page_size=${MOST_GAMES}`).then(namesOf);
      this.#namesUntilMs = Date.now() + NAMES_KEPT_MS;
    }
    try {
      return [...(await this.#names)].filter(([, name]) => folded(name).includes(folded(text)));
    } catch (error) {
      // The next letter asks again, and the connection's state says the rest.
      if (!isExpected(error)) throw error;
      this.#namesUntilMs = 0;
      return [];
    }
  }
}

const namesOf = (boards) => new Map(Object.values(boards).flat().map(({ playerId, playerName }) => [playerId, playerName]));

function makeStanding(product, href) {
  const cells = [0, 1, 2].map(() => make("td", { className: "number" }));
  return make("tr", { "data-product": product }, make("th", { scope: "row" }, make("a", { href })), ...cells);
}

function makeNeighbour(player, href) {
  const name = make("th", { scope: "row" }, make("a", { href }));
  return make("tr", { "data-player": player }, make("td", { className: "number" }), name, make("td", { className: "number" }));
}
