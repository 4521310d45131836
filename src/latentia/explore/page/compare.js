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
        const same =
          u !== undefined &&
          node.states.length > 0 &&
          !node.grid &&
          node.states.join("\n") === facts.nodes[u].states.join("\n");
        return same ? [[v, u]] : [];
      });
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
      const lost = known.filter(([v]) => !other.has(v)).map(([v]) => this.app.nodes[v].name);
      const hand = new Set([...given.hand].filter((v) => other.has(v)).map((v) => other.get(v)));
      const asked = new latentia.Known(
        known.filter(([v]) => other.has(v)).map(([v, w]) => [other.get(v), w]),
        hand,
      );
      const theirs = await this.engine.answer(asked);
      const ours = this.app.now;
      this.told.textContent =
        `P(evidence): ${latentia.probability(ours.log)} and ${latentia.probability(theirs.log)}` +
        (lost.length ? `; the second does not know ${lost.join(", ")}` : "");
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

    _card(v, a, b, apart) {
      const node = this.app.nodes[v];
      const pressed = this.app.evidence.get(v)?.state;
      const lines = node.states.map((state, k) => {
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
            "aria-pressed": String(pressed === k),
            "aria-label": `${state}, ${percent(a[k])} and ${percent(b[k])}`,
            onclick: () => this.app.actions.toggle(v, k),
          },
          el("span", { class: "label" }, state),
          el("span", {}, ...bars),
        );
      });
      return el(
        "section",
        {
          class: `card ${node.latent ? "latent" : "column"} ${pressed === undefined ? "" : "known"}`,
        },
        el(
          "div",
          { class: "head" },
          el("span", { class: "name" }, node.name),
          el("span", { class: "kind" }, `differs by ${percent(apart)}`),
        ),
        ...lines,
      );
    }
  }

  Object.assign(latentia, { CompareView });
})((globalThis.latentia ??= {}));
