// The page of a sequence model: one sequence at a time, its hidden states, what may come next.
(function (latentia) {
  "use strict";
  const { el, percent, short, timeline } = latentia;

  const WINDOWS = [50, 100, 200, 500, 1000]; // steps that may be shown at a time

  class SequencesPage {
    constructor(root, facts) {
      this.facts = facts;
      this.which = 0;
      this.window = null; // null: all steps
      this.first = 0;
      this.at = null; // the step that is looked at
      this.strips = el("div", { class: "strips", tabindex: 0, role: "group" });
      this.strips.setAttribute("aria-label", "Timeline; arrows move from step to step");
      this.panel = el("aside", { class: "panel", "aria-label": "Details" });
      this.told = el("p", { class: "hint", role: "status" });
      this._build(root);
      this._listen();
      this.show();
    }

    get one() {
      return this.facts.sequences[this.which];
    }

    _build(root) {
      const pick = el(
        "select",
        { "aria-label": "Sequence", onchange: () => this.open(Number(pick.value)) },
        ...this.facts.sequences.map((s, k) => el("option", { value: k }, s.name)),
      );
      this.pick = pick;
      const step = (by, mark, name) =>
        el(
          "button",
          {
            type: "button",
            "aria-label": name,
            title: name,
            onclick: () => this.open(this.which + by),
          },
          mark,
        );
      this.zoom = el("select", {
        "aria-label": "Steps shown",
        onchange: () => {
          this.window = this.zoom.value ? Number(this.zoom.value) : null;
          this.show();
        },
      });
      this.scroll = el("input", {
        type: "range",
        class: "scroller",
        min: 0,
        "aria-label": "First step shown",
        oninput: () => {
          this.first = Number(this.scroll.value);
          this.show();
        },
      });
      root.replaceChildren(
        el(
          "header",
          { class: "top" },
          latentia.titleLine(
            this.facts.title,
            el(
              "div",
              { class: "tools" },
              step(-1, "‹", "Sequence before"),
              pick,
              step(1, "›", "Next sequence"),
              this.zoom,
            ),
          ),
          el("div", { class: "line known" }, this.told, this.scroll),
        ),
        el("div", { class: "body" }, el("main", { class: "stage along" }, this.strips), this.panel),
      );
      document.body.classList.add("with-panel");
    }

    _listen() {
      this.strips.addEventListener("pointermove", (event) => this._point(event));
      this.strips.addEventListener("pointerdown", (event) => this._point(event));
      this.strips.addEventListener("keydown", (event) => {
        const by = { ArrowRight: 1, ArrowLeft: -1, PageDown: 10, PageUp: -10 }[event.key];
        if (!by) return;
        event.preventDefault();
        this.look(Math.max((this.at ?? -1) + by, 0));
      });
    }

    _point(event) {
      const room = event.target.closest?.(".room");
      if (!room) return;
      const box = room.getBoundingClientRect();
      const share = Math.min(Math.max((event.clientX - box.left) / box.width, 0), 0.999999);
      this.look(this.scale.step(share) + this.scale.first);
    }

    open(which) {
      const count = this.facts.sequences.length;
      this.which = (which + count) % count;
      this.pick.value = String(this.which);
      this.first = 0;
      this.at = null;
      this.show();
    }

    // --- showing ---------------------------------------------------------------------------------

    get steps() {
      return this.one.surprise.length;
    }

    get ahead() {
      return this.one.ahead
        ? this.one.ahead.columns
            .concat(this.one.ahead.latents)
            .reduce((most, rows) => Math.max(most, rows[0]?.length ?? 0), 0)
        : 0;
    }

    show() {
      const wide = Math.min(this.window ?? this.steps, this.steps);
      this.first = Math.min(this.first, this.steps - wide);
      this._showTools(wide);
      const end = this.first + wide === this.steps;
      this.scale = new latentia.Scale(this.first, wide, end ? this.ahead : 0);
      this.cut = (row) => row.slice(this.first, this.first + wide);
      const future = end ? this.one.ahead : null;
      this.cursor = [];
      this.strips.replaceChildren(
        ...this.facts.latents.flatMap((latent, k) => this._latent(latent, k, future)),
        ...this.facts.columns.map((column, k) => this._column(column, k, future)),
        this._surprises(),
        this._axis(),
      );
      this._showPanel();
    }

    _showTools(wide) {
      const kept = this.zoom.value;
      const sizes = WINDOWS.filter((n) => n < this.steps);
      this.zoom.replaceChildren(
        el("option", { value: "" }, "all steps"),
        ...sizes.map((n) => el("option", { value: n }, `${n} steps`)),
      );
      this.zoom.value = sizes.includes(Number(kept)) ? kept : "";
      this.zoom.hidden = !sizes.length;
      this.scroll.max = this.steps - wide;
      this.scroll.value = String(this.first);
      this.scroll.hidden = wide === this.steps;
      const { total, sequences } = this.facts;
      const left = total > sequences.length ? ` (the first ${sequences.length} of ${total})` : "";
      const late = this.one.start ? `, the last of ${this.steps + this.one.start}` : "";
      this.told.textContent =
        `Sequence ${this.which + 1} of ${sequences.length}${left}, ` +
        `${this.steps} steps${late}${this.ahead ? `, and ${this.ahead} to come` : ""}`;
    }

    /** A strip with its name before it and a line that follows the pointer. */
    _line(name, hint, drawn, kind = "") {
      const cursor = el("i", { class: "cursor", hidden: true });
      this.cursor.push(cursor);
      return el(
        "div",
        { class: `along-line ${kind}` },
        el("div", { class: "side" }, el("b", { title: name }, name), el("small", {}, hint)),
        el("div", { class: "room" }, drawn, cursor),
      );
    }

    _latent(latent, k, future) {
      const { paths, beliefs } = this.one;
      const lines = [];
      if (paths[k]) {
        const drawn = timeline.bands(
          `${latent.name}, most probable path`,
          this.cut(paths[k]),
          this.scale,
        );
        lines.push(this._line(latent.name, "most probable path", drawn, "latent"));
      }
      const past = beliefs[k].map((row) => this.cut(row));
      const drawn = timeline.shares(
        `P(${latent.name} | all steps)`,
        past,
        future?.latents[k] ?? null,
        this.scale,
      );
      lines.push(this._line(latent.name, "P(state | all steps)", drawn, "latent"));
      return lines;
    }

    _column(column, k, future) {
      const values = this.cut(this.one.cells[k]),
        fan = future?.columns[k] ?? null;
      if (column.states) {
        const { drawn, tall } = timeline.lanes(column.name, column.states, values, fan, this.scale);
        const names = column.states.map((state) => el("span", { title: state }, state));
        const line = this._line(column.name, "", drawn);
        if (tall >= 12) {
          const list = el("div", { class: "lanes" }, ...names);
          line.querySelector(".side").append(list);
          line.classList.add("listed");
        } else line.querySelector("small").textContent = `${column.states.length} states`;
        return line;
      }
      const { drawn, low, high } = timeline.line(column.name, values, fan, this.scale);
      return this._line(column.name, `${short(low)} … ${short(high)}`, drawn);
    }

    _surprises() {
      const all = this.cut(this.one.surprise);
      const { drawn } = timeline.line("Surprise", all, null, this.scale, 40);
      return this._line("Surprise", "−log P(step | before)", drawn, "surprise");
    }

    _axis() {
      const wide = this.scale.steps + this.scale.ahead;
      const by = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000].find(
        (n) => wide / n <= 8,
      );
      const marks = [];
      for (let t = 0; t < wide; t++) {
        const number = this.one.start + this.scale.first + t;
        if (by && number % by) continue;
        const mark = el("span", {}, String(number));
        mark.style.left = `${(100 * (t + 0.5)) / wide}%`;
        marks.push(mark);
      }
      return el(
        "div",
        { class: "along-line axis" },
        el("div", { class: "side" }, el("small", {}, "step")),
        el("div", { class: "room" }, ...marks),
      );
    }

    // --- one step --------------------------------------------------------------------------------

    look(t) {
      this.at = Math.min(t, this.steps + this.ahead - 1);
      const place = this.at - this.scale.first,
        wide = this.scale.steps + this.scale.ahead;
      for (const cursor of this.cursor) {
        cursor.hidden = place < 0 || place >= wide;
        cursor.style.left = `${(100 * (place + 0.5)) / wide}%`;
      }
      this._showPanel();
    }

    _showPanel() {
      this.panel.replaceChildren(
        ...(this.at === null ? [] : this._step(this.at)),
        ...this.facts.latents.map((latent) => this._states(latent)),
      );
    }

    /** What is known of one step, or of one to come. */
    _step(t) {
      const { cells, beliefs, ahead, surprise, start } = this.one;
      const later = t >= this.steps,
        k = later ? t - this.steps : t;
      const rows = [];
      this.facts.latents.forEach((latent, l) => {
        const p = (later ? ahead.latents[l] : beliefs[l]).map((row) => row[k]);
        rows.push([
          latent.name,
          this._likely(
            latent.shares.map((_, s) => String(s)),
            p,
          ),
        ]);
      });
      this.facts.columns.forEach((column, c) => {
        if (later) {
          const p = ahead.columns[c].map((row) => row[k]);
          if (!p.length) return;
          const fan = `${short(p[1])} (${short(p[0])} … ${short(p[2])})`;
          rows.push([column.name, column.states ? this._likely(column.states, p) : fan]);
          return;
        }
        const x = cells[c][t];
        rows.push([
          column.name,
          x === null ? "missing" : column.states ? column.states[x] : short(x),
        ]);
      });
      if (!later)
        rows.push([
          "surprise",
          surprise[t] === null ? "cannot be" : `${surprise[t].toFixed(2)} nats`,
        ]);
      const title = later ? `Step ${start + t}, ${k + 1} ahead` : `Step ${start + t}`;
      return [
        el("header", {}, el("h2", {}, title)),
        el(
          "table",
          { class: "heat plain step" },
          el(
            "tbody",
            {},
            ...rows.map(([name, text]) =>
              el("tr", {}, el("th", { scope: "row" }, name), el("td", {}, text)),
            ),
          ),
        ),
      ];
    }

    /** The two most probable states. */
    _likely(names, p) {
      return [...p.keys()]
        .sort((a, b) => p[b] - p[a])
        .slice(0, 2)
        .map((s) => `${names[s]} (${percent(p[s])})`)
        .join(", ");
    }

    /** States of a latent: colour, size, how long it lasts, words; and its moves. */
    _states(latent) {
      const lines = latent.shares.map((share, k) => {
        const mark = el("i", { class: "swatch" });
        mark.style.background = timeline.colour(k);
        const lasts = latent.lasts ? `, lasts ${short(latent.lasts[k] ?? Infinity)} steps` : "";
        return el(
          "li",
          {},
          mark,
          el(
            "div",
            {},
            el("b", {}, `${k}`),
            ` ${percent(share)}${lasts}`,
            el("p", { class: "hint" }, latent.words[k]),
          ),
        );
      });
      return el(
        "section",
        { class: "part" },
        el("h3", {}, `States of ${latent.name}`),
        el("ul", { class: "states-of" }, ...lines),
        latent.moves ? this._moves(latent) : null,
      );
    }

    _moves(latent) {
      const states = latent.shares.map((_, k) => k);
      const head = el(
        "tr",
        {},
        el("th", { scope: "col" }, "from ╲ to"),
        ...states.map((k) => el("th", { scope: "col" }, String(k))),
      );
      const lines = latent.moves.map((row, k) =>
        el(
          "tr",
          {},
          el("th", { scope: "row" }, String(k)),
          ...row.map((p) => {
            const cell = el("td", {}, (100 * p).toFixed(p < 0.0995 ? 1 : 0));
            cell.style.setProperty("--share", `${Math.round(85 * p)}%`);
            return cell;
          }),
        ),
      );
      return el(
        "div",
        { class: "scroll" },
        el("p", { class: "hint" }, "Moves, in %"),
        el("table", { class: "heat" }, el("thead", {}, head), el("tbody", {}, ...lines)),
      );
    }
  }

  const facts = JSON.parse(document.getElementById("facts").textContent);
  latentia.page = new SequencesPage(document.getElementById("app"), facts);
})((globalThis.latentia ??= {}));
