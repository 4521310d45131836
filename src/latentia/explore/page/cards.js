// Cards: a variable with its distribution. Click a state to know it, click again to forget it.
(function (latentia) {
  "use strict";
  const { el, percent } = latentia;

  const LISTED = 10; // states with a line each; more make a chart

  /** One state of a variable: its name, its probability as a bar, a tick where it was before. */
  class StateLine {
    constructor(card, state) {
      this.bar = el("i", { class: "bar" });
      this.tick = el("i", { class: "tick" });
      this.number = el("span", { class: "number" });
      const name = card.node.states[state];
      this.name = name;
      this.element = el(
        "button",
        {
          class: "state",
          type: "button",
          "aria-pressed": "false",
          tabindex: state ? -1 : 0,
          title: name,
          onclick: (event) => card.onState(state, event.shiftKey),
        },
        this.bar,
        this.tick,
        el("span", { class: "label" }, name),
        this.number,
      );
    }

    show(p, prior, pressed, best) {
      this.element.dataset.p = p === null ? "" : String(p);
      const told = p === null ? "unknown" : percent(p);
      const filled = p === null ? 0 : Math.round(1000 * p) / 10;
      const ticked = p !== null && Math.abs(p - prior) >= 0.002; // a mark where it was before
      const now = `${told} ${filled} ${ticked && prior} ${pressed} ${best}`;
      if (now === this.shown) return; // of many variables most look as they did
      this.shown = now;
      this.bar.style.backgroundSize = `${filled}% 100%`;
      this.tick.style.left = `${100 * prior}%`;
      this.tick.hidden = !ticked;
      this.number.textContent = p === null ? "–" : told;
      this.element.setAttribute("aria-pressed", String(pressed));
      this.element.setAttribute("aria-label", `${this.name}, ${told}`);
      this.element.classList.toggle("best", best);
    }
  }

  class Card {
    /** `listed`: a line for each state, however many. */
    constructor(node, v, actions, listed = false) {
      this.node = node;
      this.v = v;
      this.onState = (state, hand) => actions.toggle(v, state, hand);
      const kind = node.latent ? "latent" : "column";
      this.head = el(
        "button",
        { class: "head", type: "button", title: node.name, onclick: () => actions.select(v) },
        el("span", { class: "name" }, node.name),
        node.latent ? el("span", { class: "kind" }, "latent") : null,
      );
      this.lines = [];
      this.chart = null;
      this.note = null;
      this.element = el(
        "section",
        { class: `card ${kind}`, "data-node": v, "aria-label": `${node.name}, ${kind}` },
        this.head,
      );
      if (!node.states.length) return;
      if (listed || (!node.grid && node.states.length <= LISTED)) {
        this.lines = node.states.map((_, state) => new StateLine(this, state));
        const group = el("div", { class: "states", role: "group", "aria-label": node.name });
        group.append(...this.lines.map((line) => line.element));
        group.addEventListener("keydown", (event) => this._move(event));
        this.element.append(group);
        return;
      }
      this.chart = new latentia.Chart(node, (from, to) => actions.range(v, from, to));
      const meaning = node.grid
        ? "mean (middle 90 %); drag over the chart to set a range"
        : "most probable state";
      this.note = el("p", { class: "summary", title: meaning });
      this.element.append(this.chart.element, this.note);
    }

    /** Arrows walk through the states. */
    _move(event) {
      const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
      const at = this.lines.findIndex((line) => line.element === document.activeElement);
      if (!step || at < 0) return;
      event.preventDefault();
      event.stopPropagation();
      const next = this.lines[(at + step + this.lines.length) % this.lines.length];
      for (const line of this.lines) line.element.tabIndex = -1;
      next.element.tabIndex = 0;
      next.element.focus();
    }

    show(shares, prior, entry, best, selected) {
      this.element.classList.toggle("known", Boolean(entry) && !entry.weights);
      this.element.classList.toggle("soft", Boolean(entry?.weights));
      this.element.classList.toggle("hand", Boolean(entry?.hand));
      this.element.classList.toggle("selected", selected);
      this.lines.forEach((line, k) => {
        const before = prior ? prior[k] : 0;
        line.show(shares ? shares[k] : null, before, entry?.state === k, best === k);
      });
      if (this.chart) {
        this.chart.show(shares, prior, entry);
        this.note.textContent = this.chart.summary(shares);
      }
    }
  }

  Object.assign(latentia, { Card });
})((globalThis.latentia ??= {}));
