// Two models side by side: every variable that both know, those that differ most first.
(function (latentia) {
  "use strict";
  const { el, percent } = latentia;

  class CompareView {
    constructor(app, facts, engine) {
      this.app = app;
      this.facts = facts;
      this.engine = engine;
      const place = new Map(facts.nodes.map((node, u) => [node.name, u]));
      this.pairs = app.nodes.flatMap((node, v) => {
        const u = place.get(node.name);
        return u !== undefined && alike(node, facts.nodes[u]) ? [[v, u]] : [];
      });
      this.named = new Set(place.keys());
      this.list = el("div", { class: "list" });
      this.told = el("p", { class: "hint", role: "status" });
      this.element = el(
        "div",
        { class: "compare" },
        el(
          "p",
          { class: "legend" },
          el("b", { class: "first" }, app.facts.title),
          " against ",
          el("b", { class: "second" }, facts.title),
        ),
        this.told,
        this.list,
      );
    }

    async show() {
      const other = new Map(this.pairs);
      const given = this.app.evidence.likelihoods(),
        known = [...given];
      const lost = known.filter(([v]) => !other.has(v)).map(([v]) => this._lost(v));
      const hand = new Set([...given.hand].filter((v) => other.has(v)).map((v) => other.get(v)));
      const asked = new latentia.Known(
        known.filter(([v]) => other.has(v)).map(([v, w]) => [other.get(v), w]),
        hand,
      );
      const theirs = await this.engine.answer(asked);
      const ours = this.app.now;
      this.told.textContent =
        `P(evidence): ${latentia.probability(ours.log)} and ${latentia.probability(theirs.log)}` +
        (lost.length ? `; not told to the second: ${lost.join(", ")}` : "");
      if (!ours.marginals || !theirs.marginals) {
        this.list.replaceChildren(
          el("p", {}, "One of the models holds this evidence for impossible."),
        );
        return;
      }
      const cards = this.pairs
        .filter(([v, u]) => ours.marginals[v] && theirs.marginals[u])
        .map(([v, u]) => {
          const [a, b] = [ours.marginals[v], theirs.marginals[u]];
          const apart = a.reduce((sum, p, k) => sum + Math.abs(p - b[k]) / 2, 0);
          return [apart, this._card(v, a, b, apart)];
        });
      cards.sort((a, b) => b[0] - a[0]);
      this.list.replaceChildren(...cards.map(([, card]) => card));
    }

    /** Why the second model is not told of a variable. */
    _lost(v) {
      const { name, grid } = this.app.nodes[v];
      if (!this.named.has(name)) return `${name}, which it does not know`;
      return `${name}, which has other ${grid ? "cells" : "states"} there`;
    }

    _card(v, a, b, apart) {
      const node = this.app.nodes[v];
      const entry = this.app.evidence.get(v);
      return el(
        "section",
        { class: `card ${node.latent ? "latent" : "column"} ${entry ? "known" : ""}` },
        el(
          "div",
          { class: "head" },
          el("span", { class: "name" }, node.name),
          el("span", { class: "kind" }, `differs by ${percent(apart)}`),
        ),
        ...(node.grid ? this._densities(v, a, b, entry) : this._lines(v, a, b, entry)),
      );
    }

    /** A density of the first, and the outline of the second over it. */
    _densities(v, a, b, entry) {
      const node = this.app.nodes[v];
      const chart = new latentia.Chart(node, (from, to) => this.app.actions.range(v, from, to));
      chart.show(a, b, entry);
      const [first, second] = [a, b].map((shares) => chart.summary(shares));
      chart.element.setAttribute("aria-label", `${first} and ${second}`);
      const told = el(
        "p",
        { class: "summary", title: "mean (middle 90 %)" },
        el("b", { class: "first" }, first),
        " and ",
        el("b", { class: "second" }, second),
      );
      return [chart.element, told];
    }

    _lines(v, a, b, entry) {
      return this.app.nodes[v].states.map((state, k) => {
        const bars = [
          ["first", a[k]],
          ["second", b[k]],
        ].map(([name, p]) => {
          const bar = el("i", { class: name });
          bar.style.transform = `scaleX(${p})`;
          return el("span", { class: "double" }, bar, el("span", { class: "number" }, percent(p)));
        });
        return el(
          "button",
          {
            type: "button",
            class: "pair",
            "aria-pressed": String(entry?.state === k),
            "aria-label": `${state}, ${percent(a[k])} and ${percent(b[k])}`,
            onclick: () => this.app.actions.toggle(v, k),
          },
          el("span", { class: "label" }, state),
          el("span", {}, ...bars),
        );
      });
    }
  }

  /** Do two variables have the same states, or the same cells? */
  function alike(node, other) {
    const cells = ({ states, grid }) => [
      ...states,
      ...(grid?.values ?? []),
      ...(grid?.widths ?? []),
    ];
    const [mine, theirs] = [cells(node), cells(other)];
    return (
      node.states.length > 0 &&
      mine.length === theirs.length &&
      mine.every((cell, k) => cell === theirs[k])
    );
  }

  Object.assign(latentia, { CompareView });
})((globalThis.latentia ??= {}));
