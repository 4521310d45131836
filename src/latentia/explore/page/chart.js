// A small chart for columns with many cells: a density, or bars; drag over it to set a range.
(function (latentia) {
  "use strict";
  const { svg } = latentia;

  const WIDTH = 160,
    HEIGHT = 56;

  /** Left and right end of every cell along the chart: to scale for a density. */
  function ends(node) {
    const count = node.states.length;
    if (!node.grid) return Array.from({ length: count }, (_, k) => [k / count, (k + 1) / count]);
    const total = node.grid.widths.reduce((a, b) => a + b, 0);
    const atoms = node.grid.widths.filter((w) => w === 0).length;
    const room = 1 - 0.05 * atoms; // atoms stand at the right end
    let at = 0;
    return node.grid.widths.map((w) => {
      const from = at;
      at += w > 0 ? (w / total) * room : 0.05;
      return [from, at];
    });
  }

  class Chart {
    constructor(node, onRange) {
      this.node = node;
      this.ends = ends(node);
      this.fill = svg("path", { class: "fill" });
      this.ghost = svg("path", { class: "ghost" });
      this.range = svg("rect", { class: "range", y: 0, height: HEIGHT, width: 0 });
      this.element = svg(
        "svg",
        {
          class: "chart",
          viewBox: `0 0 ${WIDTH} ${HEIGHT}`,
          preserveAspectRatio: "none",
          role: "img",
        },
        this.range,
        this.fill,
        this.ghost,
      );
      this._listen(onRange);
    }

    _cell(event) {
      const box = this.element.getBoundingClientRect();
      const share = Math.min(Math.max((event.clientX - box.left) / box.width, 0), 0.999999);
      return this.ends.findIndex(([, to]) => share < to);
    }

    _listen(onRange) {
      let first = null;
      const between = (event) => {
        const cell = this._cell(event);
        return [Math.min(first, cell), Math.max(first, cell)];
      };
      this.element.addEventListener("pointerdown", (event) => {
        first = this._cell(event);
        this.element.setPointerCapture(event.pointerId);
        event.stopPropagation();
      });
      this.element.addEventListener("pointermove", (event) => {
        if (first !== null) this._mark(...between(event));
      });
      this.element.addEventListener("pointerup", (event) => {
        if (first !== null) onRange(...between(event));
        first = null;
      });
    }

    _mark(from, to) {
      this.range.setAttribute("x", WIDTH * this.ends[from][0]);
      this.range.setAttribute("width", WIDTH * (this.ends[to][1] - this.ends[from][0]));
    }

    /** Heights: densities for a grid, probabilities else, relative to the highest. */
    _path(shares) {
      const heights = Array.from(shares, (p, k) => {
        const wide = this.ends[k][1] - this.ends[k][0];
        return this.node.grid ? p / Math.max(wide, 1e-9) : p;
      });
      const top = Math.max(...heights) || 1;
      let path = `M0 ${HEIGHT}`;
      heights.forEach((h, k) => {
        const y = (HEIGHT - (HEIGHT - 3) * (h / top)).toFixed(2);
        const [from, to] = this.ends[k].map((x) => (WIDTH * x).toFixed(2));
        path += `L${from} ${y}L${to} ${y}`;
      });
      return `${path}L${WIDTH} ${HEIGHT}Z`;
    }

    show(shares, prior, entry) {
      this.fill.setAttribute("d", shares ? this._path(shares) : "");
      this.ghost.setAttribute("d", prior ? this._path(prior) : "");
      if (!entry || entry.weights) this.range.setAttribute("width", 0);
      else this._mark(entry.from ?? entry.state, entry.to ?? entry.state);
      this.element.setAttribute("aria-label", this.summary(shares));
    }

    /** Mean (and middle 90 %) of a density, or the most probable state. */
    summary(shares) {
      if (!shares) return "impossible";
      if (!this.node.grid) {
        const best = shares.indexOf(Math.max(...shares));
        return `${this.node.states[best]} ${latentia.percent(shares[best])}`;
      }
      const { values, widths } = this.node.grid;
      const mean = values.reduce((sum, x, k) => sum + x * shares[k], 0);
      const order = [...values.keys()].sort((a, b) => values[a] - values[b]);
      const quantile = (q) => {
        let sum = 0;
        for (const k of order) {
          if (sum + shares[k] >= q) return values[k] + widths[k] * ((q - sum) / shares[k] - 0.5);
          sum += shares[k];
        }
        return values[order[order.length - 1]];
      };
      const [low, high] = [quantile(0.05), quantile(0.95)].map(latentia.short);
      return `${latentia.short(mean)} (${low} … ${high})`;
    }
  }

  Object.assign(latentia, { Chart });
})((globalThis.latentia ??= {}));
