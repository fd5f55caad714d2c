// The views of a page: one is shown, and fed by one stream. Browsers open six connections to an origin, and a page may
// be open in several tabs.

import { isExpected } from "./ask.js";
import { byId } from "./show.js";

const HIDDEN_MS = 60_000;

export class Views {
  #frame;
  #of;
  #view = null;
  #feeding = new AbortController();
  #fedBy = null;
  #hiddenTimer = 0;

  /**
   * `of` says what the page has:
   *
   *   title        the title of the page, while its first view is shown
   *   route(hash)  a view: `name` of its section, `fed` names what feeds it, `within` the view that one goes back to, at `back`
   *   open(view)   fills the section before it is shown
   *   run(view, signal, tell)   feeds it until `signal`
   *   locate(view, signal)      asks from time to time where it comes from
   *   refused(view, text)       shows why nothing feeds it
   */
  constructor(frame, of) {
    this.#frame = frame;
    this.#of = of;
  }

  /** The view that is shown. */
  get shown() {
    return this.#view;
  }

  /** Show what the address says, from now on. */
  begin() {
    addEventListener("hashchange", () => this.#go());
    addEventListener("keydown", (event) => this.#key(event));
    document.addEventListener("visibilitychange", () => this.#seenOrNot());
    // A page that the browser keeps for the way back would keep its connection as well.
    addEventListener("pagehide", () => this.#letGo());
    addEventListener("pageshow", (event) => event.persisted && this.feed());
    this.#go();
  }

  /** Have the view fed by what it needs; what feeds it already goes on, unless `again`. */
  feed(again = false) {
    const view = this.#view;
    if (view.fed === this.#fedBy && !again) return;
    this.#feeding.abort();
    this.#feeding = new AbortController();
    this.#fedBy = view.fed;
    this.#tell("starting");
    const { signal } = this.#feeding;
    this.#of.run(view, signal, (state, refusal) => signal.aborted || this.#tell(state, refusal));
    this.locate();
  }

  async locate() {
    // Without an answer the line stays as it was; the connection's state says the rest.
    await this.#of.locate(this.#view, this.#feeding.signal)?.catch((error) => {
      if (!isExpected(error)) throw error;
    });
  }

  #go() {
    const came = this.#view;
    const view = (this.#view = { ...this.#of.route(location.hash), hash: location.hash });
    for (const section of document.querySelectorAll("main > section")) section.hidden = section.id !== view.name;
    for (const link of document.querySelectorAll("[data-view]")) {
      if (link.dataset.view === view.name) link.setAttribute("aria-current", "page");
      else if (link.dataset.view === view.within) link.setAttribute("aria-current", "true");
      else link.removeAttribute("aria-current");
    }
    this.#of.open(view);
    const title = byId(`${view.name}-title`);
    document.title = view.isFirst ? this.#of.title : `${title.textContent} · ${this.#of.title}`;
    this.feed();
    if (came) focusAfter(came, view, title);
  }

  #tell(state, refusal) {
    this.#frame.become(state, refusal);
    if (state === "final") this.#of.refused(this.#view, refusal.message);
  }

  #key(event) {
    if (event.key !== "Escape" || event.defaultPrevented || this.#view.isFirst || event.target.matches("input")) return;
    location.hash = this.#view.back ?? "#/";
  }

  /** A page that nobody sees lets its connection go after a while. */
  #seenOrNot() {
    clearTimeout(this.#hiddenTimer);
    if (document.hidden) this.#hiddenTimer = setTimeout(() => this.#letGo(), HIDDEN_MS);
    else if (this.#fedBy === null) this.feed();
  }

  /** Close the stream; `feed` opens it again. */
  #letGo() {
    this.#feeding.abort();
    this.#fedBy = null;
  }
}

/** After a step back the focus is on the link that one comes from, else on the title of the view. */
function focusAfter(came, view, title) {
  const link = came.within === view.name && byId(view.name).querySelector(`a[href="${CSS.escape(came.hash)}"]`);
  (link || title).focus({ preventScroll: !link });
  if (!link) scrollTo(0, 0);
}
