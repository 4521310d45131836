// The page: what is known on top, the graph, the list, the junction tree or rows below, details
// beside them.
(function (latentia) {
  "use strict";
  const { el, probability } = latentia;

  const PATIENCE = 300; // milliseconds before the page says that it is computing
  const MANY = 12; // variables from which on one may look for one by name
  const NARROW = 560; // pixels of width below which the list is shown first

  class App {
    constructor(root, facts) {
      this.facts = facts;
      this.nodes = facts.nodes;
      this.edges = facts.edges;
      this.server = facts.server ? new latentia.Server(facts.server.token) : null;
      this.engine = this._engineOf(facts, 0);
      this.evidence = new latentia.Evidence(facts.nodes, () => this.update());
      this.selected = null;
      this.best = null; // states of the most probable explanation, while it is shown
      this.explaining = false;
      this.asked = 0; // questions so far: an answer counts if it is that of the last one
      this.detailed = 0; // the same for the details of a variable
      this.now = null;
      this.prior = null;
      this.select = (v) => this._select(v);
      this.actions = {
        toggle: (v, state, hand) =>
          this.evidence.toggle(v, state, Boolean(hand) && this.facts.directed),
        select: (v) => this._select(this.selected === v ? null : v),
        range: (v, from, to) => this._range(v, from, to),
      };
      this._build(root);
      this._begin();
    }

    _engineOf(facts, number) {
      return facts.network
        ? new latentia.LocalEngine(facts)
        : new latentia.RemoteEngine(this.server, number);
    }

    // --- parts -----------------------------------------------------------------------------------

    _build(root) {
      this.chips = el("div", { class: "chips", "aria-label": "Evidence" });
      this.weight = el("output", {
        class: "weight",
        "aria-live": "polite",
        title: "Probability of all that is known; soft evidence counts by its likelihoods",
      });
      this.message = el("p", { class: "message", role: "status", hidden: true });
      const tool = (mark, word, name, act) =>
        el(
          "button",
          { type: "button", title: name, "aria-label": name, onclick: act },
          el("span", {}, mark),
          el("span", { class: mark ? "word" : "" }, `${mark && " "}${word}`),
        );
      this.undoButton = tool("↶", "Undo", "Undo (Ctrl+Z)", () => this.evidence.undo());
      this.redoButton = tool("↷", "Redo", "Redo (Ctrl+Y)", () => this.evidence.redo());
      this.clearButton = tool("", "Clear", "Forget all evidence", () =>
        this.evidence.replace(new Map()),
      );
      this.bestButton = tool(
        "★",
        "Most probable",
        "Most probable explanation: the best state of all variables together",
        () => this._explain(),
      );
      this.bestButton.setAttribute("aria-pressed", "false");
      const link = tool("", "Copy link", "A link that holds this evidence", () => this._copyLink());
      const find = this.nodes.length > MANY ? latentia.finder(this) : null;
      this.panel = el("aside", { class: "panel", "aria-label": "Details" });
      this.stage = el("main", { class: "stage" });
      this.tabs = el("nav", { class: "tabs", role: "tablist", "aria-label": "Views" });
      root.replaceChildren(
        el(
          "header",
          { class: "top" },
          latentia.titleLine(
            this.facts.title,
            this.tabs,
            el(
              "div",
              { class: "tools" },
              find,
              this.undoButton,
              this.redoButton,
              this.clearButton,
              this.bestButton,
              link,
            ),
          ),
          el("div", { class: "line known" }, this.weight, this.chips),
          this.message,
          this.facts.note ? el("p", { class: "hint note" }, this.facts.note) : null,
        ),
        el("div", { class: "body" }, this.stage, this.panel),
      );
      this.views = this._views();
      for (const name of Object.keys(this.views)) {
        this.tabs.append(
          el(
            "button",
            { type: "button", role: "tab", "data-view": name, onclick: () => this.open(name) },
            name,
          ),
        );
      }
    }

    /** Shows one variable, wherever it is. */
    lead(v) {
      if (this.views[this.view].own) this.open("Graph");
      this._select(v);
      this.views[this.view].lead(v);
    }

    _views() {
      const cards = (into) =>
        this.nodes.map((node, v) => {
          const card = new latentia.Card(node, v, this.actions);
          into(card, node);
          return card;
        });
      const canvas = new latentia.Canvas("Graph of the variables");
      const boxes = this.nodes.map((node) => node.box);
      const left = Math.min(...boxes.map(([x]) => x)),
        top = Math.min(...boxes.map(([, y]) => y));
      canvas.extent = [
        left,
        top,
        Math.max(...boxes.map(([x, , w]) => x + w)) - left,
        Math.max(...boxes.map(([, y, , h]) => y + h)) - top,
      ];
      canvas.draw(
        this.edges.map((edge, k) => ({ points: edge.points, name: k })),
        this.facts.directed,
        this.facts.sideways,
      );
      const inGraph = cards((card, node) => {
        const [x, y, width, height] = node.box;
        Object.assign(card.element.style, {
          left: `${x}px`,
          top: `${y}px`,
          width: `${width}px`,
          height: `${height}px`,
        });
        card.element.addEventListener("focusin", () => {
          if (card.element.matches(":has(:focus-visible)")) canvas.reveal(node.box);
        });
      });
      this._inReadingOrder(inGraph).forEach((card) => canvas.world.append(card.element));
      const list = el("div", { class: "list" });
      const inList = cards((card) => list.append(card.element));
      const showAll = (all) => () => all.forEach((card, v) => this._showCard(card, v));
      const views = {
        Graph: {
          element: canvas.element,
          show: showAll(inGraph),
          fit: () => canvas.fit(),
          lead: (v) => canvas.centre(this.nodes[v].box),
        },
        List: {
          element: list,
          show: showAll(inList),
          lead: (v) => inList[v].element.scrollIntoView(),
        },
      };
      const lazy = (make, panel = true) => {
        let made = null;
        const get = () => (made ??= make());
        return {
          get element() {
            return get().element;
          },
          show: () => get().show(),
          fit: () => get().canvas?.fit(),
          own: true,
          panel,
        };
      };
      const plain = (make) => lazy(make, false);
      if (this.facts.network) views["Junction tree"] = lazy(() => new latentia.TreeView(this));
      if (this.facts.server?.rows)
        views.Rows = lazy(() => new latentia.RowsView(this, this.server));
      const named = (name) => this.lead(this.nodes.findIndex((node) => node.name === name));
      if (this.facts.check)
        views.Check = plain(() => new latentia.CheckView(this.facts.check, named));
      else if (this.facts.server?.check)
        views.Check = plain(() => new latentia.AskedCheck(this.server, named));
      const other = this.facts.other;
      if (other)
        views.Compare = lazy(
          () => new latentia.CompareView(this, other, this._engineOf(other, 1)),
          false,
        );
      return views;
    }

    /** From top to bottom, then from left to right: how the tab key walks. */
    _inReadingOrder(cards) {
      return [...cards].sort(
        (a, b) => a.node.box[1] - b.node.box[1] || a.node.box[0] - b.node.box[0],
      );
    }

    // --- what happens ----------------------------------------------------------------------------

    async _begin() {
      this._listen();
      this.prior = await this.engine.answer(new latentia.Known());
      this._readHash();
      this.open(window.innerWidth < NARROW ? "List" : "Graph");
    }

    _listen() {
      document.addEventListener("keydown", (event) => {
        const typing = event.target.matches?.("input, select");
        if (event.key === "Escape" && this.selected !== null) this._select(null);
        if (!(event.ctrlKey || event.metaKey) || typing) return;
        const key = event.key.toLowerCase();
        if (key === "z" && !event.shiftKey) this.evidence.undo();
        else if (key === "y" || (key === "z" && event.shiftKey)) this.evidence.redo();
        else return;
        event.preventDefault();
      });
      window.addEventListener("hashchange", () => {
        if (location.hash !== this.evidence.toHash()) {
          this._readHash();
          this.update();
        }
      });
    }

    _readHash() {
      const { entries, unknown } = latentia.Evidence.fromHash(location.hash, this.nodes);
      this.evidence.entries = entries;
      this.tell(
        unknown.length
          ? `The link speaks of what this model does not know: ${unknown.join("; ")}`
          : "",
      );
    }

    tell(text) {
      this.message.textContent = text;
      this.message.hidden = !text;
    }

    open(name) {
      this.view = name;
      for (const tab of this.tabs.children) {
        tab.setAttribute("aria-selected", String(tab.dataset.view === name));
      }
      this.stage.replaceChildren(this.views[name].element);
      this.views[name].fit?.();
      if (this.views[name].own) this.selected = null;
      this.panel.replaceChildren();
      this.update();
    }

    _range(v, from, to) {
      const now = this.evidence.get(v),
        node = this.nodes[v];
      const same = now && (now.from === from || now.state === from) && (now.to ?? now.state) === to;
      const entry = from === to && !node.grid ? { state: from } : { from, to };
      this.evidence.set(v, same ? null : entry);
    }

    setWeights(v, weights, merge) {
      const plain = weights.every((w) => w === weights[0]);
      this.sliding = v; // the sliders stay while one of them is held
      this.evidence.set(v, plain ? null : { weights }, merge);
    }

    async _explain() {
      this.explaining = !this.explaining;
      this.bestButton.setAttribute("aria-pressed", String(this.explaining));
      await this.update();
    }

    _copyLink() {
      const done = () => this.tell("The link is copied; it holds the evidence.");
      const failed = () => this.tell(`Copy it from here: ${location.href}`);
      if (navigator.clipboard) navigator.clipboard.writeText(location.href).then(done, failed);
      else failed();
    }

    _select(v) {
      this.selected = v;
      this.show();
      if (v !== null && !this.views[this.view].own) this.panel.scrollTop = 0;
    }

    // --- showing ---------------------------------------------------------------------------------

    /** Ask anew, and show the answer unless a later question has come in between. */
    async update() {
      const turn = ++this.asked;
      const hash = this.evidence.toHash();
      if (location.hash !== hash)
        history.replaceState(null, "", hash || location.pathname + location.search);
      const slow = setTimeout(() => this.tell("computing …"), PATIENCE);
      try {
        const likelihoods = this.evidence.likelihoods();
        const now = await this.engine.answer(likelihoods);
        const best = this.explaining ? await this.engine.explain(likelihoods) : null;
        if (turn !== this.asked) return;
        this.now = now;
        this.best = best;
        this.show();
        if (this.message.textContent === "computing …") this.tell("");
      } catch (error) {
        this.tell(error.message);
      } finally {
        clearTimeout(slow);
      }
    }

    show() {
      if (!this.now) return;
      const possible = this.now.marginals !== null;
      const hand = [...this.evidence.entries.values()].some((entry) => entry.hand);
      this.weight.textContent = `P(evidence${hand ? " | do" : ""}) = ${probability(this.now.log)}`;
      this._dimEdges();
      this.weight.dataset.log = String(this.now.log);
      this.weight.classList.toggle("impossible", !possible);
      this._showChips(possible);
      this.undoButton.disabled = !this.evidence.past.length;
      this.redoButton.disabled = !this.evidence.future.length;
      this.clearButton.disabled = !this.evidence.entries.size;
      this.views[this.view].show();
      this._showPanel();
    }

    /** What is set by hand no longer listens to its parents. */
    _dimEdges() {
      for (const path of document.querySelectorAll(".edge[data-edge]")) {
        const edge = this.view === "Graph" ? this.edges[path.dataset.edge] : null;
        path.classList.toggle("cut", Boolean(edge && this.evidence.get(edge.to)?.hand));
      }
    }

    _showChips(possible) {
      const chips = [...this.evidence.entries].map(([v, entry]) => {
        const node = this.nodes[v],
          said = `${node.name} = ${latentia.told(node, entry)}`;
        const text = entry.hand ? `do(${said})` : said;
        return el(
          "button",
          {
            type: "button",
            class: "chip",
            title: `Forget ${text}`,
            "aria-label": `forget ${text}`,
            onclick: () => this.evidence.set(v, null),
          },
          el("span", {}, text),
          el("span", { class: "x", "aria-hidden": "true" }, "×"),
        );
      });
      if (!chips.length)
        chips.push(
          el(
            "span",
            { class: "hint" },
            "Click a state to say that you know it; click again to forget it.",
          ),
        );
      if (!possible)
        chips.push(
          el(
            "strong",
            { class: "impossible" },
            "This cannot happen under the model: forget some of it.",
          ),
        );
      if (this.best?.states)
        chips.push(
          el(
            "span",
            { class: "hint best" },
            `★ log P of the best states and the evidence: ${this.best.log.toFixed(3)}`,
          ),
        );
      this.chips.replaceChildren(...chips);
    }

    _showCard(card, v) {
      const own = this.now.marginals?.[v] ?? null;
      const best = this.best?.states ? this.best.states[v] : -1;
      card.show(own, this.prior?.marginals?.[v], this.evidence.get(v), best, this.selected === v);
    }

    _showPanel() {
      const { own, panel } = this.views[this.view];
      document.body.classList.toggle("with-panel", own ? panel : this.selected !== null);
      if (own) return;
      if (this.selected === null) {
        this.panel.replaceChildren();
        return;
      }
      const again = this.sliding === this.selected && this.panel.querySelector(".sliders");
      this.sliding = null;
      latentia.showDetails(this, this.panel, this.selected, Boolean(again));
    }
  }

  const facts = JSON.parse(document.getElementById("facts").textContent);
  latentia.app = new App(document.getElementById("app"), facts);
})((globalThis.latentia ??= {}));
