// The frame of a page: how the connection is and how old what is seen is, a token that is asked for, a pause.

import { token } from "./ask.js";
import { address, byId, duration, make, say } from "./show.js";

const NOTICE_AFTER_MS = 1_500;
const TEXTS = { starting: "Connecting", live: "Live", lost: "Connection lost, trying again", refused: "Token needed", final: "No answer" };

export class Frame {
  paused = false;
  #state = "starting";
  #sinceMs = performance.now();
  #freshMs = null;
  #freshAt = null;
  #hosts;

  /** `hosts` returns the instances there are, `again` asks anew with another token, `hold` holds back what is shown. */
  constructor({ hosts, again, hold }) {
    this.#hosts = hosts;
    byId("token-form").addEventListener("submit", (event) => {
      event.preventDefault();
      token.set(byId("token").value.trim());
      byId("token").value = "";
      byId("forget").hidden = false;
      again();
    });
    byId("forget").addEventListener("click", () => {
      token.forget();
      byId("forget").hidden = true;
      again();
    });
    byId("forget").hidden = !token.get();
    byId("pause").addEventListener("click", () => {
      this.paused = !this.paused;
      byId("pause").setAttribute("aria-pressed", String(this.paused));
      hold(this.paused);
      this.#tick();
    });
    document.querySelector(".skip").addEventListener("click", (event) => {
      event.preventDefault();
      byId("main").focus();
    });
    setInterval(() => this.#tick(), 1_000);
  }

  get refused() {
    return this.#state === "refused";
  }

  /** Show how the connection is: "starting", "live", "lost", "refused" or "final", the last two with a Refusal. */
  become(state, refusal) {
    if (state === "live") {
      this.#freshMs = performance.now();
      this.#freshAt = new Date();
      if (this.#state === "live") return;
    }
    if (state !== this.#state) this.#sinceMs = performance.now();
    // While it is being tried again, it is still lost.
    if (state === "starting" && this.#state === "lost") return;
    this.#state = state;
    byId("token-form").hidden = state !== "refused";
    if (state === "refused") say(byId("token-text"), token.get() ? `It was refused. ${refusal.message}` : refusal.message);
    this.#tick();
  }

  #tick() {
    const still = this.paused && this.#state === "live";
    byId("state").dataset.state = still ? "paused" : this.#state;
    say(byId("state-text"), still ? "Paused" : TEXTS[this.#state]);
    const lost = this.#state === "lost" && performance.now() - this.#sinceMs > NOTICE_AFTER_MS;
    say(byId("age"), lost && this.#freshMs !== null ? `${duration(performance.now() - this.#freshMs)} old` : "");
    byId("notice").hidden = !lost;
    if (!lost) return;
    const since = this.#freshAt ? ` What you see is from ${this.#freshAt.toLocaleTimeString()}.` : "";
    const others = this.#others();
    say(byId("notice-text"), `The service does not answer here; the page tries again by itself.${since}${others.length ? " Other instances may still answer:" : ""}`);
    this.#show(others);
  }

  /** Return the other instances; the page never goes to one by itself: it could be another network's. */
  #others() {
    return this.#hosts().map(address).filter((each) => each !== location.host);
  }

  #show(others) {
    const key = others.join(" ");
    const list = byId("notice-hosts");
    if (list.dataset.key === key) return;
    list.dataset.key = key;
    // Advertised addresses are reached from here only when this page came from one of them.
    const reached = this.#hosts().some((host) => address(host) === location.host);
    list.replaceChildren(
      ...others.map((each) => make("li", {}, reached ? make("a", { href: `${location.protocol}//${each}/${location.hash}` }, each) : each)),
    );
  }
}
