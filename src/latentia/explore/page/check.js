// A check report: findings, what columns tell of each other, what comes true, pairs left untold.
(function (latentia) {
  "use strict";
  const { el, svg, percent, short } = latentia;

  const SQUARE = 220,
    EDGE = 34;
  const PAIRED = 40; // columns in the grid of pairs
  const ORDERS = {
    "as in the model": null,
    "least told first": (a, b) => a.gain - b.gain,
    "most told first": (a, b) => b.gain - a.gain,
    "worst calibrated first": (a, b) => b.calibration - a.calibration,
  };

  function block(title, hint, ...content) {
    return el(
      "section",
      { class: "block" },
      el("h2", {}, title),
      hint ? el("p", { class: "hint" }, hint) : null,
      ...content,
    );
  }

  class CheckView {
    /** `lead`: shows a variable elsewhere, by name; null where there is nothing else to show. */
    constructor(facts, lead = null) {
      this.facts = facts;
      this.lead = lead;
      this.chosen = null; // a column
      this.order = "as in the model";
      this.gains = el("div", { class: "gains" });
      this.grid = el("div", { class: "scroll" });
      this.pair = el("output", { class: "told", "aria-live": "polite" });
      this.element = el(
        "div",
        { class: "check" },
        el("h2", { class: "verdict" }, `Check on ${facts.rows.toLocaleString("en")} rows`),
        el("p", { class: facts.findings.length ? "odd" : "fine" }, facts.verdict),
        this._findings(),
        el("div", { class: "blocks" }, this._columns(), this._calibration(), this._pairs()),
        el("p", { class: "hint" }, facts.footnote),
      );
      this.show();
    }

    _findings() {
      if (!this.facts.findings.length) return null;
      const lines = this.facts.findings.map((finding) =>
        el(
          "li",
          {},
          el("span", {}, finding.fact, " "),
          ...finding.about.map((name) =>
            el("button", { type: "button", class: "chip", onclick: () => this.choose(name) }, name),
          ),
          finding.advice ? el("p", { class: "hint" }, finding.advice) : null,
        ),
      );
      return el("ol", { class: "findings" }, ...lines);
    }

    // --- columns ---------------------------------------------------------------------------------

    _columns() {
      const choose = el(
        "select",
        {
          "aria-label": "Order of columns",
          onchange: () => {
            this.order = choose.value;
            this.show();
          },
        },
        ...Object.keys(ORDERS).map((name) => el("option", { value: name }, name)),
      );
      return block(
        "What the other columns tell of each",
        "Nats gained over the marginal, ± 2 standard errors. Choose one to see its pairs.",
        el("label", {}, "Columns ", choose),
        this.gains,
      );
    }

    _showGains() {
      const columns = [...this.facts.columns];
      if (ORDERS[this.order]) columns.sort(ORDERS[this.order]);
      const low = Math.min(0, ...columns.map((c) => c.gain - 2 * c.error));
      const high = Math.max(1e-3, ...columns.map((c) => c.gain + 2 * c.error));
      const at = (x) => `${(100 * (x - low)) / (high - low)}%`;
      const lines = columns.map((c) => {
        const bar = el("i", { class: "gain" }),
          whisker = el("i", { class: "whisker" });
        const [from, to] = [Math.min(c.gain, 0), Math.max(c.gain, 0)];
        Object.assign(bar.style, { left: at(from), right: `calc(100% - ${at(to)})` });
        const ends = [c.gain - 2 * c.error, c.gain + 2 * c.error];
        Object.assign(whisker.style, { left: at(ends[0]), right: `calc(100% - ${at(ends[1])})` });
        const told =
          `gain ${c.gain.toFixed(4)} ± ${c.error.toFixed(4)} nats (loss ${c.loss.toFixed(4)}, ` +
          `marginal ${c.marginal.toFixed(4)}); calibration off by ${c.calibration.toFixed(3)}, ` +
          `by chance ${c.noise.toFixed(3)}; ${c.rows.toLocaleString("en")} rows`;
        return el(
          "button",
          {
            type: "button",
            class: `line ${c.odd ? "odd" : ""}`,
            title: told,
            "aria-label": `${c.name}: ${told}`,
            "aria-pressed": String(this.chosen === c.name),
            onclick: () => this.choose(c.name),
          },
          el("span", { class: "label" }, c.name),
          el("span", { class: "room" }, bar, whisker),
          el("span", { class: "number" }, c.gain.toFixed(3)),
        );
      });
      this.gains.replaceChildren(...lines);
    }

    choose(name) {
      this.chosen = this.chosen === name ? null : name;
      this.show();
    }

    // --- calibration -----------------------------------------------------------------------------

    _calibration() {
      const { levels, coverage } = this.facts;
      if (!levels.length && !coverage.length) return null;
      const x = (p) => EDGE + SQUARE * p,
        y = (p) => 8 + SQUARE * (1 - p);
      const parts = [];
      for (let k = 0; k <= 4; k++) {
        const tick = k / 4;
        parts.push(
          svg("path", {
            class: "rule",
            d: `M${x(tick)} ${y(0)}V${y(1)}M${x(0)} ${y(tick)}H${x(1)}`,
          }),
          svg("text", { x: x(tick), y: y(0) + 16, "text-anchor": "middle" }, String(tick)),
          svg("text", { x: x(0) - 6, y: y(tick) + 4, "text-anchor": "end" }, String(tick)),
        );
      }
      parts.push(svg("path", { class: "honest", d: `M${x(0)} ${y(0)}L${x(1)} ${y(1)}` }));
      const most = Math.max(1, ...levels.map((level) => level.rows));
      const told = (level, what) =>
        `${what} ${percent(level.stated)}: came true ${percent(level.seen)} of ` +
        `${Math.round(level.rows).toLocaleString("en")}`;
      for (const level of coverage) {
        const box = { class: "box", x: x(level.stated) - 4, y: y(level.seen) - 4 };
        const mark = svg("rect", { ...box, width: 8, height: 8, tabindex: 0, role: "img" });
        parts.push(named(mark, told(level, "middle")));
      }
      for (const level of levels) {
        const far = Math.min(level.seen + level.error, 1),
          near = Math.max(level.seen - level.error, 0);
        parts.push(
          svg("path", { class: "whisker", d: `M${x(level.stated)} ${y(near)}V${y(far)}` }),
        );
        const size = 3 + 5 * Math.sqrt(level.rows / most);
        const dot = { class: "dot", cx: x(level.stated), cy: y(level.seen), r: size };
        parts.push(
          named(svg("circle", { ...dot, tabindex: 0, role: "img" }), told(level, "stated")),
        );
      }
      const chart = svg(
        "svg",
        {
          class: "calibration",
          viewBox: `0 0 ${SQUARE + EDGE + 14} ${SQUARE + 32}`,
          role: "group",
          "aria-label": "Probability stated, and how often it came true",
        },
        ...parts,
      );
      const kinds = [
        levels.length ? "dots: the likeliest state, ± 2 standard errors of chance" : "",
        coverage.length ? "squares: the middle share of a density" : "",
      ];
      return block(
        "Do probabilities come true?",
        `Stated (across) against came true (up); honest ones lie on the line (${kinds.filter(Boolean).join("; ")}).`,
        chart,
      );
    }

    // --- pairs -----------------------------------------------------------------------------------

    _pairs() {
      if (!this.facts.pairs.length) return null;
      return block(
        "Left untold between pairs",
        "Darker is nearer to what chance does not explain; orange is beyond it, in % of the rows.",
        this.pair,
        this.grid,
      );
    }

    _showPairs() {
      const of = new Map();
      for (const pair of this.facts.pairs) of.set([...pair.names].sort().join("\n"), pair);
      let names = this.facts.columns.map((c) => c.name);
      if (this.chosen !== null) {
        this._showOne(of, names);
        return;
      }
      if (names.length > PAIRED) {
        const worst = new Set(this.facts.pairs.flatMap((pair) => pair.names).slice(0, 2 * PAIRED));
        names = names.filter((name) => worst.has(name)).slice(0, PAIRED);
      }
      const lines = names.map((a, i) =>
        el(
          "tr",
          {},
          ...names
            .slice(0, i)
            .map((b) => el("td", {}, this._cell(of.get([a, b].sort().join("\n"))))),
          el("th", { scope: "row" }, a),
        ),
      );
      this.grid.replaceChildren(el("table", { class: "pairs" }, el("tbody", {}, ...lines)));
      this._tell(this.facts.pairs[0], "Worst: ");
    }

    /** All pairs of one column, the worst first. */
    _showOne(of, names) {
      const found = names
        .map((name) => of.get([name, this.chosen].sort().join("\n")))
        .filter((pair) => pair && pair.names[0] !== pair.names[1])
        .sort((a, b) => b.gap - a.gap);
      const lines = found.map((pair) => {
        const other = pair.names[0] === this.chosen ? pair.names[1] : pair.names[0];
        return el(
          "tr",
          {},
          el("td", {}, this._cell(pair)),
          el("th", { scope: "row" }, other),
          el("td", { class: "number" }, `χ² ${short(pair.chi2)} on ${short(pair.freedom)}`),
        );
      });
      const buttons = [
        el(
          "button",
          { type: "button", class: "quiet", onclick: () => this.choose(this.chosen) },
          "All pairs",
        ),
        this.lead
          ? el(
              "button",
              { type: "button", class: "quiet", onclick: () => this.lead(this.chosen) },
              "Show in the graph",
            )
          : null,
      ];
      this.pair.textContent = `Pairs of ${this.chosen}, the worst first`;
      this.grid.replaceChildren(
        el("div", { class: "bar" }, ...buttons),
        el("table", { class: "pairs one" }, el("tbody", {}, ...lines)),
      );
    }

    _cell(pair) {
      if (!pair) return "";
      const cell = el(
        "button",
        {
          type: "button",
          class: `pairing ${pair.beyond ? "beyond" : ""}`,
          "aria-label": this._words(pair),
          title: this._words(pair),
          onfocus: () => this._tell(pair),
          onpointerenter: () => this._tell(pair),
          onclick: () => this._tell(pair),
        },
        pair.beyond ? (100 * pair.gap).toFixed(0) : "",
      );
      cell.style.setProperty("--share", `${Math.round(60 * pair.nearness)}%`);
      return cell;
    }

    _words(pair) {
      const [a, b] = pair.names;
      return (
        `${a} and ${b}: ${percent(pair.gap)} of the rows, χ² ${short(pair.chi2)} on ` +
        `${short(pair.freedom)} degrees of freedom` +
        (pair.beyond ? ", more than chance" : "")
      );
    }

    _tell(pair, before = "") {
      if (this.chosen === null || !before) this.pair.textContent = before + this._words(pair);
    }

    show() {
      this._showGains();
      if (this.facts.pairs.length) this._showPairs();
    }
  }

  function named(mark, text) {
    mark.setAttribute("aria-label", text);
    mark.append(svg("title", {}, text));
    return mark;
  }

  /** A check that Python makes once it is looked at. */
  class AskedCheck {
    constructor(server, lead) {
      this.element = el(
        "div",
        { class: "checking" },
        el("p", { class: "hint", role: "status" }, "Checking the model on all rows of the table …"),
      );
      server.ask("check", {}).then(
        (facts) => {
          const hint = "On the rows that it was learned from, a model looks better than it is.";
          const view = new CheckView(facts, lead);
          view.element.prepend(el("p", { class: "hint" }, hint));
          this.element.replaceChildren(view.element);
        },
        (error) => this.element.replaceChildren(el("p", { class: "impossible" }, error.message)),
      );
    }

    show() {}
  }

  Object.assign(latentia, { CheckView, AskedCheck });
})((globalThis.latentia ??= {}));
