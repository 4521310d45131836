// Evidence: what is known of each variable, its history, and its form in a link.
//
// An entry is {state} (certain), {state, hand} (set by hand), {from, to} (a range of cells of a
// chart) or {weights} (soft).
(function (latentia) {
  "use strict";

  /** A weight for every state of a node. */
  function likelihood(node, entry) {
    const count = node.states.length;
    if (entry.weights) return Float64Array.from(entry.weights);
    const found = new Float64Array(count);
    if (entry.state !== undefined) found[entry.state] = 1;
    else if (node.grid) return rangeOfGrid(node.grid, entry.from, entry.to);
    else found.fill(1, entry.from, entry.to + 1);
    return found;
  }

  /** Share of each cell's hat between the outer edges of two cells; atoms between them count. */
  function rangeOfGrid(grid, from, to) {
    const { values, widths } = grid;
    const points = widths.filter((w) => w > 0).length;
    const until = (j, edge) => {
      if (edge < j || (edge === j && j === 0)) return 0;
      if (edge === j) return 0.125;
      if (edge === j + 1 && j < points - 1) return 0.875;
      return 1;
    };
    const low = values[from] - widths[from] / 2,
      high = values[to] + widths[to] / 2;
    return Float64Array.from(values, (x, j) => {
      if (j >= points) return x >= low && x <= high ? 1 : 0;
      return from >= points ? 0 : until(j, to + 1) - until(j, from);
    });
  }

  /** Weights of states by node, and which nodes are set by hand instead of seen. */
  class Known extends Map {
    constructor(entries = [], hand = new Set()) {
      super(entries);
      this.hand = hand;
    }

    with(v, weights) {
      return new Known([...this, [v, weights]], this.hand);
    }

    without(v) {
      const hand = new Set([...this.hand].filter((u) => u !== v));
      return new Known(
        [...this].filter(([u]) => u !== v),
        hand,
      );
    }
  }

  /** What is known, with undo and redo; `changed` is called after every change. */
  class Evidence {
    constructor(nodes, changed) {
      this.nodes = nodes;
      this.changed = changed;
      this.past = [];
      this.future = [];
      this.entries = new Map();
    }

    get(v) {
      return this.entries.get(v);
    }

    /** Set one variable, or forget it (null); `merge` replaces the last step, for sliders. */
    set(v, entry, merge = false) {
      const next = new Map(this.entries);
      if (entry === null) next.delete(v);
      else next.set(v, entry);
      this.replace(next, merge);
    }

    toggle(v, state, hand = false) {
      const now = this.entries.get(v);
      const same = now?.state === state && Boolean(now.hand) === hand;
      this.set(v, same ? null : hand ? { state, hand } : { state });
    }

    replace(next, merge = false) {
      if (!merge) this.past.push(this.entries);
      this.future = [];
      this.entries = next;
      this.changed();
    }

    undo() {
      if (!this.past.length) return;
      this.future.push(this.entries);
      this.entries = this.past.pop();
      this.changed();
    }

    redo() {
      if (!this.future.length) return;
      this.past.push(this.entries);
      this.entries = this.future.pop();
      this.changed();
    }

    likelihoods() {
      const hand = [...this.entries].filter(([, entry]) => entry.hand).map(([v]) => v);
      return new Known(
        [...this.entries].map(([v, e]) => [v, likelihood(this.nodes[v], e)]),
        new Set(hand),
      );
    }

    // --- links -----------------------------------------------------------------------------------

    toHash() {
      const parts = [...this.entries].map(([v, entry]) => {
        const node = this.nodes[v],
          name = encoded(node.name);
        if (entry.weights) return `${name}~${entry.weights.map((w) => +w.toFixed(4)).join(",")}`;
        if (entry.state === undefined) return `${name}:${entry.from}-${entry.to}`;
        return `${name}${entry.hand ? "!" : "="}${encoded(node.states[entry.state])}`;
      });
      return parts.length ? `#${parts.join("&")}` : "";
    }

    /** Entries of a link; what this model does not know is left out and told. */
    static fromHash(hash, nodes) {
      const entries = new Map(),
        unknown = [];
      const number = new Map(nodes.map((node, v) => [node.name, v]));
      for (const part of hash.replace(/^#/, "").split("&").slice(0, nodes.length)) {
        const found = /^([^=~:!]*)([=~:!])(.*)$/.exec(part);
        if (!found) continue;
        const v = number.get(decoded(found[1]));
        const entry = v === undefined ? null : readEntry(nodes[v], found[2], decoded(found[3]));
        if (entry) entries.set(v, entry);
        else unknown.push(decoded(part).slice(0, 60));
      }
      return { entries, unknown };
    }
  }

  function readEntry(node, kind, text) {
    const count = node.states.length;
    if (kind === "=" || kind === "!") {
      const state = node.states.indexOf(text);
      return state < 0 ? null : kind === "!" ? { state, hand: true } : { state };
    }
    if (kind === "~") {
      const weights = text.split(",").map(Number);
      const good = weights.length === count && weights.every((w) => w >= 0 && w <= 1);
      return good && weights.some((w) => w > 0) ? { weights } : null;
    }
    const [from, to] = text.split("-").map(Number);
    const good = Number.isInteger(from) && Number.isInteger(to) && 0 <= from && from <= to;
    return good && to < count ? { from, to } : null;
  }

  /** As in addresses, and without the marks that part an entry. */
  function encoded(text) {
    return encodeURIComponent(text).replace(/[!~]/g, (c) => `%${c.charCodeAt(0).toString(16)}`);
  }

  function decoded(text) {
    try {
      return decodeURIComponent(text);
    } catch {
      return text;
    }
  }

  /** What is known of a node, in words. */
  function told(node, entry) {
    if (entry.weights) return "soft";
    if (entry.state !== undefined) return node.states[entry.state];
    if (!node.grid) return `${node.states[entry.from]} … ${node.states[entry.to]}`;
    const { values, widths } = node.grid;
    const low = values[entry.from] - widths[entry.from] / 2;
    const high = values[entry.to] + widths[entry.to] / 2;
    return widths[entry.from] ? `${latentia.short(low)} … ${latentia.short(high)}` : `${low}`;
  }

  Object.assign(latentia, { Evidence, Known, likelihood, told });
})((globalThis.latentia ??= {}));
