// Rows of a table: what the model thinks of each, which cells surprise it, what holes should hold.
(function (latentia) {
  "use strict";
  const { el, percent } = latentia;

  const PAGE = 40;

  /** What is to be said of a cell, given the others of its row. */
  function words(cell) {
    const sure = cell.p === null ? cell.spread : `P = ${percent(cell.p)}`;
    const start = cell.missing ? "missing; filled in " : "";
    return `${start}${sure}${cell.note ? `; ${cell.note}` : ""}`;
  }

  class RowsView {
    constructor(app, server) {
      this.app = app;
      this.server = server;
      this.start = 0;
      this.sort = "table";
      this.list = el("div", { class: "scroll rows" });
      this.told = el("p", { class: "hint", role: "status" });
      const choose = el(
        "select",
        {
          "aria-label": "Order of rows",
          onchange: () => {
            this.sort = choose.value;
            this.start = 0;
            this.load();
          },
        },
        ...[
          ["table", "as in the table"],
          ["odd", "most surprising first"],
          ["usual", "least surprising first"],
        ].map(([value, text]) => el("option", { value }, text)),
      );
      const step = (by, text) =>
        el(
          "button",
          {
            type: "button",
            onclick: () => {
              this.start = Math.max(0, this.start + by);
              this.load();
            },
          },
          text,
        );
      this.element = el(
        "div",
        { class: "rowsview" },
        el(
          "div",
          { class: "bar" },
          el("label", {}, "Rows ", choose),
          step(-PAGE, "‹ before"),
          step(PAGE, "next ›"),
          this.told,
        ),
        this.list,
      );
      this.loaded = false;
    }

    show() {
      if (!this.loaded) this.load();
      if (!this.app.panel.hasChildNodes()) this._hint();
    }

    _hint() {
      this.app.panel.replaceChildren(
        el("header", {}, el("h2", {}, "Rows")),
        el(
          "p",
          {},
          "Cells are coloured by how much they surprise the model, given the other cells of their row. " +
            "Cells in italics were missing: the most probable value is shown. Choose a row for details.",
        ),
        el(
          "p",
          { class: "legend" },
          el("span", { class: "cell s3" }, "P < 1 %"),
          el("span", { class: "cell s2" }, "P < 5 %"),
          el("span", { class: "cell s1" }, "P < 20 %"),
        ),
        el(
          "p",
          { class: "hint" },
          "A number is coloured where it lies outside the middle 99, 95 or 80 % of what the others make likely.",
        ),
      );
    }

    async load() {
      this.loaded = true;
      this.told.textContent = "reading …";
      try {
        const found = await this.server.ask("rows", {
          model: 0,
          start: this.start,
          count: PAGE,
          sort: this.sort,
        });
        this._fill(found);
      } catch (error) {
        this.told.textContent = error.message;
      }
    }

    _fill(found) {
      if (this.start >= found.total && this.start > 0) {
        this.start = Math.max(0, found.total - PAGE);
        this.load();
        return;
      }
      const last = Math.min(this.start + PAGE, found.total);
      this.told.textContent = found.total
        ? `${this.start + 1} to ${last} of ${found.total}${found.cut ? " (the first rows of the table)" : ""}`
        : "no rows";
      const head = el(
        "tr",
        {},
        el("th", { scope: "col" }, "row"),
        el("th", { scope: "col", title: "log P(present cells)" }, "log P"),
        ...found.columns.map((name) => el("th", { scope: "col" }, name)),
      );
      const lines = found.rows.map((row) => {
        const open = () => this._row(found.columns, row);
        const cells = row.cells.map((cell) => {
          return el(
            "td",
            { class: `cell s${cell.grade} ${cell.missing ? "hole" : ""}`, title: words(cell) },
            cell.text,
          );
        });
        return el(
          "tr",
          {
            tabindex: 0,
            onclick: open,
            onkeydown: (e) => {
              if (e.key === "Enter") open();
            },
          },
          el("th", { scope: "row" }, String(row.number)),
          el("td", {}, row.score === null ? "−∞" : row.score.toFixed(2)),
          ...cells,
        );
      });
      this.list.replaceChildren(el("table", {}, el("thead", {}, head), el("tbody", {}, ...lines)));
    }

    /** One row: every cell with its probability, and a button that takes it as evidence. */
    _row(columns, row) {
      const order = [...row.cells.keys()].sort(
        (a, b) =>
          row.cells[b].grade - row.cells[a].grade || (row.cells[a].p ?? 1) - (row.cells[b].p ?? 1),
      );
      const lines = order.map((k) => {
        const cell = row.cells[k];
        const expected =
          !cell.missing && cell.best !== cell.text
            ? `expected ${cell.best} ${cell.spread ?? ""}`
            : "";
        const sure = cell.p === null ? cell.spread : percent(cell.p);
        return el(
          "tr",
          {},
          el("th", { scope: "row" }, columns[k]),
          el("td", { class: `cell s${cell.grade} ${cell.missing ? "hole" : ""}` }, cell.text),
          el("td", { class: "sure" }, cell.missing || cell.p !== null ? sure : ""),
          el("td", { class: "hint" }, [expected, cell.note].filter(Boolean).join("; ")),
        );
      });
      const take = () => {
        const entries = new Map();
        row.cells.forEach((cell) => {
          if (!cell.missing && cell.entry && cell.node >= 0) entries.set(cell.node, cell.entry);
        });
        this.app.evidence.replace(entries);
        this.app.open("Graph");
      };
      this.app.panel.replaceChildren(
        el(
          "header",
          {},
          el(
            "div",
            {},
            el("h2", {}, `Row ${row.number}`),
            el(
              "p",
              { class: "hint" },
              `log P(row) = ${row.score === null ? "−∞" : row.score.toFixed(3)}`,
            ),
          ),
        ),
        el(
          "p",
          { class: "hint" },
          "P of every cell given all others of the row, the most surprising first; of a hole, of the value filled in.",
        ),
        el(
          "div",
          { class: "scroll" },
          el("table", { class: "heat plain" }, el("tbody", {}, ...lines)),
        ),
        el("button", { type: "button", onclick: take }, "Take as evidence"),
      );
    }
  }

  Object.assign(latentia, { RowsView });
})((globalThis.latentia ??= {}));
