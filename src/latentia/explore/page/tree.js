// The junction tree: cliques, the separators between them, and the messages that cross these.
(function (latentia) {
  "use strict";
  const { el, percent, section } = latentia;

  const MESSAGE = 48; // states of a separator whose message is shown
  const GAP = 26,
    STEP = 132,
    HEIGHT = 44,
    WIDEST = 190;

  function wordWidth(text) {
    return Math.min(Math.max(7.4 * text.length + 28, 60), WIDEST);
  }

  /** Parents above children, each in the middle of its children. */
  function placed(network, names) {
    const children = network.cliques.map(() => []);
    const roots = [];
    for (const i of network.order) {
      if (network.parent[i] === i) roots.push(i);
      else children[network.parent[i]].push(i);
    }
    const boxes = new Array(network.cliques.length);
    let left = 0;
    const place = (i, depth) => {
      const width = wordWidth(names[i]);
      if (!children[i].length) {
        boxes[i] = [left, depth * STEP, width, HEIGHT];
        left += Math.max(width, 92) + GAP;
        return left - GAP - Math.max(width, 92) / 2 - (Math.max(width, 92) - width) / 2;
      }
      const start = left;
      const middles = children[i].map((c) => place(c, depth + 1));
      const middle = (middles[0] + middles[middles.length - 1]) / 2;
      boxes[i] = [Math.max(middle - width / 2, start), depth * STEP, width, HEIGHT];
      left = Math.max(left, boxes[i][0] + width + GAP);
      return boxes[i][0] + width / 2;
    };
    for (const root of roots) place(root, 0);
    return boxes;
  }

  class TreeView {
    constructor(app) {
      this.app = app;
      this.network = app.facts.network;
      this.canvas = new latentia.Canvas("Junction tree: cliques and separators");
      this.element = this.canvas.element;
      this.chosen = null;
      const { cliques, parent, names } = this.network;
      this.labels = cliques.map((clique) => clique.map((v) => names[v]).join(", "));
      this.shared = app.engine.tree.shared;
      this.told = new Map(app.facts.separators.map((s) => [s.clique, s]));
      const boxes = placed(this.network, this.labels);
      const right = Math.max(...boxes.map(([x, , w]) => x + w));
      const bottom = Math.max(...boxes.map(([, y]) => y + HEIGHT));
      this.canvas.extent = [0, 0, right, bottom];
      const lines = [];
      this.cliques = cliques.map((clique, i) => {
        const box = el(
          "div",
          { class: "clique", title: this.labels[i] },
          el("span", {}, this.labels[i]),
        );
        this._put(box, boxes[i]);
        return box;
      });
      this.buttons = cliques.map((_, i) => {
        if (parent[i] === i) return null;
        const [x, y, w] = boxes[i],
          [px, py, pw] = boxes[parent[i]];
        lines.push({
          name: i,
          points: [
            [px + pw / 2, py + HEIGHT],
            [x + w / 2, y],
          ],
        });
        const text = this.shared[i].map((v) => names[v]).join(", ") || "∅";
        const rank = this.told.get(i)?.rank;
        const button = el(
          "button",
          {
            type: "button",
            class: "separator",
            title: `Separator {${text}}`,
            "aria-label": `separator ${text}`,
            onclick: () => this.choose(i),
          },
          el("span", {}, text),
          rank ? el("small", {}, `rank ${rank}`) : null,
        );
        const wide = Math.min(wordWidth(text), 150);
        const middle = (x + w / 2 + px + pw / 2) / 2;
        const near = 0.65 * (x + w / 2) + 0.35 * middle; // siblings keep out of each other's way
        const line = lines[lines.length - 1];
        line.points.splice(1, 0, [near, y - 42]);
        this._put(button, [near - wide / 2, y - 58, wide, 32]);
        return button;
      });
      this.canvas.draw(lines, false, null);
      this.canvas.world.append(...this.cliques, ...this.buttons.filter(Boolean));
    }

    _put(element, [x, y, width, height]) {
      Object.assign(element.style, {
        left: `${x}px`,
        top: `${y}px`,
        width: `${width}px`,
        height: `${height}px`,
      });
      this.canvas.world.append(element);
    }

    /** Cliques on the far side of the separator above clique i. */
    _inside(i) {
      const found = new Set([i]);
      for (const j of this.network.order) if (found.has(this.network.parent[j])) found.add(j);
      return found;
    }

    choose(i) {
      this.chosen = this.chosen === i ? null : i;
      this.show();
    }

    show() {
      const inside = this.chosen === null ? null : this._inside(this.chosen);
      const told = this.told.get(this.chosen);
      this.cliques.forEach((box, i) => {
        box.classList.toggle("inside", Boolean(inside?.has(i)));
        box.classList.toggle("outside", Boolean(inside && !inside.has(i)));
        const holds = (side) =>
          Boolean(
            told?.[side].some(
              (v) => this.network.cliques[i].length === 1 && this.network.cliques[i][0] === v,
            ),
          );
        box.classList.toggle("alpha", holds("alpha"));
        box.classList.toggle("beta", holds("beta"));
      });
      this.buttons.forEach((button, i) => {
        button?.classList.toggle("chosen", i === this.chosen);
        button?.setAttribute("aria-pressed", String(i === this.chosen));
      });
      this._panel();
    }

    _names(variables) {
      return variables.map((v) => this.network.names[v]).join(", ") || "none";
    }

    _panel() {
      const panel = this.app.panel;
      if (this.chosen === null) {
        panel.replaceChildren(
          el("header", {}, el("h2", {}, "Junction tree")),
          el(
            "p",
            {},
            "Boxes are cliques: variables whose tables are multiplied together. Between two " +
              "cliques lies the separator, the variables that they share. Given these, what is inside " +
              "(below) tells nothing more about what is outside (above).",
          ),
          el(
            "p",
            {},
            "Evidence travels as messages over separators: once up, once down. Choose a separator " +
              "to see what crosses it.",
          ),
        );
        return;
      }
      const i = this.chosen,
        inside = this._inside(i),
        scope = this.shared[i];
      const below = new Set(),
        above = new Set();
      this.network.cliques.forEach((clique, j) =>
        clique.forEach((v) => {
          if (!scope.includes(v)) (inside.has(j) ? below : above).add(v);
        }),
      );
      const told = this.told.get(i);
      const parts = [
        el(
          "header",
          {},
          el(
            "div",
            {},
            el("h2", {}, `Separator {${this._names(scope)}}`),
            told ? el("p", { class: "hint" }, `rank r(S) = ${told.rank}`) : null,
          ),
        ),
        section(
          "Sides",
          el(
            "dl",
            {},
            el("dt", { class: "inside" }, "Inside tree"),
            el("dd", {}, this._names([...below])),
            el("dt", { class: "outside" }, "Outside tree"),
            el("dd", {}, this._names([...above])),
            ...(told
              ? [
                  el("dt", { class: "alpha" }, "α(S), speaks for the inside"),
                  el("dd", {}, this._names(told.alpha)),
                  el("dt", { class: "beta" }, "β(S), speaks for the outside"),
                  el("dd", {}, this._names(told.beta)),
                ]
              : []),
          ),
        ),
      ];
      const { up, down } = this.app.now;
      if (up[i] && down[i] && up[i].length <= MESSAGE)
        parts.push(this._messages(scope, up[i], down[i]));
      panel.replaceChildren(...parts);
    }

    /** Both messages and what they make together, a line for each joint state. */
    _messages(scope, up, down) {
      const product = up.map((x, s) => x * down[s]);
      const total = product.reduce((a, b) => a + b, 0) || 1;
      const states = this.network.states;
      const name = (cell) => {
        const words = [];
        for (let k = scope.length - 1; k >= 0; k--) {
          const count = states[scope[k]];
          const node = this.app.nodes.find((each) => each.place === scope[k]);
          words.unshift(node?.states[cell % count] ?? String(cell % count));
          cell = Math.floor(cell / count);
        }
        return words.join(", ") || "always";
      };
      const cell = (share) => {
        const td = el("td", {}, share.toFixed(3));
        td.style.setProperty("--share", `${Math.round(85 * share)}%`);
        return td;
      };
      const lines = Array.from(up, (x, s) =>
        el(
          "tr",
          {},
          el("th", { scope: "row" }, name(s)),
          cell(x),
          cell(down[s]),
          cell(product[s] / total),
        ),
      );
      const head = el(
        "tr",
        {},
        el("th", { scope: "col" }, this._names(scope)),
        el("th", { scope: "col" }, "↑ inside says"),
        el("th", { scope: "col" }, "↓ outside says"),
        el("th", { scope: "col" }, "P(S | e)"),
      );
      const hint =
        "Messages are shown relative to their largest entry. State by state, their product is " +
        "the answer, up to a factor.";
      return section(
        "Messages",
        el("p", { class: "hint" }, hint),
        el(
          "div",
          { class: "scroll" },
          el("table", { class: "heat" }, el("thead", {}, head), el("tbody", {}, ...lines)),
        ),
      );
    }
  }

  Object.assign(latentia, { TreeView });
})((globalThis.latentia ??= {}));
