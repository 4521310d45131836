// Details of one variable: its numbers, soft evidence, what goes with it, its profile, its table.
(function (latentia) {
  "use strict";
  const { el, percent } = latentia;

  const TABLE = 600; // cells of a table that is shown
  const TOLD = 8; // variables in a list of what goes with one
  const MOST_STATES = 12; // of a variable whose profile is shown

  /** What the others are like in each state of v: P(state), and P(other | state), all | evidence. */
  async function conditioned(engine, nodes, v, likelihoods) {
    const now = await engine.answer(likelihoods, true);
    if (!now.marginals) return null;
    const shares = now.marginals[v],
      given = [];
    for (let k = 0; k < shares.length; k++) {
      const own = new Float64Array(shares.length);
      own[k] = 1;
      const told = likelihoods.with(v, own);
      given.push(shares[k] > 0 ? (await engine.answer(told, true)).marginals : null);
    }
    return { shares, given, now: now.marginals };
  }

  /** I(v; u) in bits, for every other variable u, the largest first. */
  function information(found, nodes, v) {
    const told = [];
    nodes.forEach((node, u) => {
      if (u === v || !found.now[u]) return;
      let bits = 0;
      found.given.forEach((marginals, k) => {
        if (!marginals) return;
        marginals[u].forEach((p, s) => {
          if (p > 0) bits += found.shares[k] * p * Math.log2(p / found.now[u][s]);
        });
      });
      told.push([u, Math.max(bits, 0)]);
    });
    return told.sort((a, b) => b[1] - a[1]);
  }

  function section(title, ...content) {
    return el("section", { class: "part" }, el("h3", {}, title), ...content);
  }

  // --- parts -------------------------------------------------------------------------------------

  /** A slider for every state: how well it agrees with what was seen. */
  function sliders(node, entry, setWeights) {
    const count = node.states.length;
    if (node.grid || count > 10) return null;
    const start =
      entry?.weights ||
      Array.from({ length: count }, (_, k) =>
        entry?.state === undefined || entry.state === k ? 1 : 0,
      );
    const weights = [...start];
    let merge = false;
    const lines = node.states.map((state, k) => {
      const value = el("output", {}, weights[k].toFixed(2));
      const input = el("input", {
        type: "range",
        min: 0,
        max: 1,
        step: 0.01,
        value: weights[k],
        "aria-label": `likelihood of ${state}`,
        oninput: () => {
          weights[k] = Number(input.value);
          value.textContent = weights[k].toFixed(2);
          if (weights.some((w) => w > 0)) setWeights([...weights], merge);
          merge = true; // one slide is one step to undo
        },
        onchange: () => {
          merge = false;
        },
      });
      return el("label", { class: "slider" }, el("span", { title: state }, state), input, value);
    });
    const hint = "How well each state agrees with what you saw; all alike says nothing.";
    return section("Soft evidence", el("p", { class: "hint" }, hint), ...lines);
  }

  /** From and to, for a continuous column: what dragging does, by keyboard. */
  function bounds(node, entry, setRange) {
    if (!node.grid) return null;
    const { values, widths } = node.grid;
    const cellOf = (x) => {
      let best = 0;
      values.forEach((value, k) => {
        if (Math.abs(value - x) < Math.abs(values[best] - x)) best = k;
      });
      return best;
    };
    const field = (name, value) =>
      el("input", {
        type: "number",
        step: "any",
        "aria-label": name,
        value: latentia.short(value),
      });
    const points = widths.filter((w) => w > 0).length;
    const from = field("from", values[entry?.from ?? 0]);
    const to = field("to", values[entry?.to ?? points - 1]);
    const apply = () => {
      const cells = [Number(from.value), Number(to.value)].map(cellOf).sort((a, b) => a - b);
      setRange(...cells);
    };
    return section(
      "Between two values",
      el(
        "div",
        { class: "bounds" },
        from,
        el("span", {}, "…"),
        to,
        el("button", { type: "button", onclick: apply }, "Set"),
      ),
    );
  }

  /** A list of variables by how much they tell about this one. */
  function goesWith(told, nodes, select) {
    const shown = told.slice(0, TOLD).filter(([, bits]) => bits > 1e-9);
    if (!shown.length) return section("What goes with it", el("p", { class: "hint" }, "Nothing."));
    const top = shown[0][1];
    const lines = shown.map(([u, bits]) => {
      const bar = el("i", { class: "bar" });
      bar.style.backgroundSize = `${(100 * bits) / top}% 100%`;
      return el(
        "button",
        { type: "button", class: "tells", onclick: () => select(u) },
        bar,
        el("span", { class: "label" }, nodes[u].name),
        el("span", { class: "number" }, `${bits.toFixed(3)} bit`),
      );
    });
    return section(
      "What goes with it",
      el("p", { class: "hint" }, "Mutual information, given the evidence."),
      ...lines,
    );
  }

  /** What the neighbours are like in each state: a table with shaded cells. */
  function profile(found, nodes, v, told, near) {
    const node = nodes[v];
    if (node.states.length > MOST_STATES || node.grid) return null;
    const rank = new Map(told.map(([u], k) => [u, k]));
    const others = [...near]
      .filter((u) => found.now[u] && !nodes[u].grid && nodes[u].states.length <= 10)
      .sort((a, b) => rank.get(a) - rank.get(b));
    if (!others.length) return null;
    const head = el(
      "tr",
      {},
      el("th", { scope: "col" }, "size"),
      ...node.states.map((state, k) =>
        el(
          "th",
          { scope: "col", title: state },
          el("span", {}, state),
          el("small", {}, percent(found.shares[k])),
        ),
      ),
    );
    const bodies = others.map((u) => {
      const lines = nodes[u].states.map((state, s) => {
        const cells = node.states.map((_, k) =>
          shaded(found.given[k] ? found.given[k][u][s] : null),
        );
        return el("tr", {}, el("th", { scope: "row", title: state }, state), ...cells);
      });
      const title = el(
        "tr",
        { class: "group" },
        el("th", { colspan: node.states.length + 1, scope: "rowgroup" }, nodes[u].name),
      );
      return el("tbody", {}, title, ...lines);
    });
    const hint = `In each state of ${node.name}: how probable its neighbours' states are, given the evidence.`;
    return section(
      "Profile",
      el("p", { class: "hint" }, hint),
      el(
        "div",
        { class: "scroll" },
        el("table", { class: "heat" }, el("thead", {}, head), ...bodies),
      ),
    );
  }

  /** A share in per cent, and its standard error where there is one. */
  function shaded(p, error = null) {
    const told = p === null ? "–" : (100 * p).toFixed(p < 0.0995 ? 1 : 0);
    const cell = el("td", {}, told);
    if (error !== null) cell.append(el("small", {}, `± ${(100 * error).toFixed(1)}`));
    if (p !== null) cell.style.setProperty("--share", `${Math.round(85 * p)}%`);
    return cell;
  }

  /** P(v | parents), a line for every joint state of the parents. */
  function table(found, nodes) {
    if (!found || found.cells.length > TABLE || found.scope.some((u) => nodes[u].grid)) return null;
    const v = found.scope[found.scope.length - 1],
      above = found.scope.slice(0, -1);
    const count = nodes[v].states.length,
      lines = [];
    for (let start = 0; start < found.cells.length; start += count) {
      const parents = [];
      for (let k = above.length - 1, rest = start / count; k >= 0; k--) {
        const states = nodes[above[k]].states;
        parents.unshift(el("th", { scope: "row" }, states[rest % states.length]));
        rest = Math.floor(rest / states.length);
      }
      const cells = Array.from(found.cells.subarray(start, start + count), (p, k) =>
        shaded(p, found.errors ? found.errors[start + k] : null),
      );
      lines.push(el("tr", {}, ...parents, ...cells));
    }
    const head = el(
      "tr",
      {},
      ...above.map((u) => el("th", { scope: "col" }, nodes[u].name)),
      ...nodes[v].states.map((state) => el("th", { scope: "col", class: "own" }, state)),
    );
    const given = above.map((u) => nodes[u].name).join(", ");
    return section(
      "Table",
      el(
        "p",
        { class: "hint" },
        `P(${nodes[v].name}${given ? ` | ${given}` : ""}), in %`,
        found.errors ? " ± its standard error" : "",
      ),
      el(
        "div",
        { class: "scroll" },
        el("table", { class: "heat" }, el("thead", {}, head), el("tbody", {}, ...lines)),
      ),
    );
  }

  /** Whether a known state was set instead of seen: then it tells nothing about its causes. */
  function byHand(app, v, entry) {
    if (entry?.state === undefined || !app.facts.directed) return null;
    const box = el("input", {
      type: "checkbox",
      checked: Boolean(entry.hand),
      onchange: () => app.evidence.toggle(v, entry.state, box.checked),
    });
    return el(
      "label",
      { class: "hand" },
      box,
      " Set by hand (do), not seen: it tells nothing about its causes",
    );
  }

  /** Side by side: the answer as it stands, and had everything been seen instead of set. */
  async function beside(app, v) {
    const given = app.evidence.likelihoods(),
      node = app.nodes[v];
    if (!given.hand.size || given.hand.has(v) || node.grid) return null;
    const seen = (await app.engine.answer(new latentia.Known([...given]), true)).marginals?.[v];
    const set = app.now?.marginals?.[v];
    if (!seen || !set) return null;
    const lines = node.states.map((state, k) =>
      el(
        "tr",
        {},
        el("th", { scope: "row", title: state }, state),
        shaded(set[k]),
        shaded(seen[k]),
      ),
    );
    const head = ["", "set", "seen"].map((name) => el("th", { scope: "col" }, name));
    const hint = "Set by hand, as it stands; and what it would be had the same been seen only.";
    return section(
      "Do beside see",
      el("p", { class: "hint" }, hint),
      el(
        "table",
        { class: "heat beside" },
        el("thead", {}, el("tr", {}, ...head)),
        el("tbody", {}, ...lines),
      ),
    );
  }

  // --- the panel ---------------------------------------------------------------------------------

  /** When what was changed has been drawn: the page first, what takes longer to compute after it. */
  function drawn() {
    return new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
  }

  /** Fills the panel for variable v; `app` has nodes, engine, evidence and what can be done. */
  async function showDetails(app, panel, v, again) {
    const node = app.nodes[v],
      entry = app.evidence.get(v);
    const near = new Set(
      app.edges
        .filter((e) => e.from === v || e.to === v)
        .map((e) => (e.from === v ? e.to : e.from)),
    );
    const kind = node.latent ? "Latent" : node.grid ? "Continuous column" : "Column";
    const close = el(
      "button",
      { type: "button", class: "close", "aria-label": "Close", onclick: () => app.select(null) },
      "×",
    );
    const head = el(
      "header",
      {},
      el(
        "div",
        {},
        el("h2", {}, node.name),
        el("p", { class: "hint" }, node.grid ? kind : `${kind} with ${node.states.length} states`),
      ),
      close,
    );
    if (!node.states.length) {
      const why =
        "The model was learned without a table of this latent. Fit with learner='tables' to see it.";
      panel.replaceChildren(head, el("p", { class: "hint" }, why));
      return;
    }
    const card = new latentia.Card(node, v, app.actions, !node.grid);
    card.show(app.now?.marginals?.[v] ?? null, app.prior?.marginals?.[v], entry, -1, false);
    const forget = entry
      ? el(
          "button",
          { type: "button", class: "quiet", onclick: () => app.evidence.set(v, null) },
          "Forget this evidence",
        )
      : null;
    const first = [
      head,
      card.element,
      byHand(app, v, entry),
      forget,
      again
        ? panel.querySelector(".sliders")
        : el(
            "div",
            { class: "sliders" },
            sliders(node, entry, (weights, merge) => app.setWeights(v, weights, merge)),
            bounds(node, entry, (from, to) => app.actions.range(v, from, to)),
          ),
    ];
    const turn = ++app.detailed;
    const before = panel.querySelector(`.later[data-of="${v}"]`); // stays until the new one is there
    const later = before ?? el("div", { class: "later", "data-of": v });
    panel.replaceChildren(...first.filter(Boolean), later);
    await drawn();
    if (app.detailed !== turn) return;
    if (node.states.length > MOST_STATES) {
      later.replaceChildren(...[table(app.engine.table(v), app.nodes)].filter(Boolean));
      return;
    }
    const without = app.evidence.likelihoods().without(v); // of itself it tells nothing once known
    const found = await conditioned(app.engine, app.nodes, v, without);
    if (app.detailed !== turn) return;
    if (!found) {
      later.replaceChildren(); // impossible: there is nothing to tell
      return;
    }
    const told = information(found, app.nodes, v);
    const both = await beside(app, v);
    if (app.detailed !== turn) return;
    const parts = [
      both,
      node.latent ? profile(found, app.nodes, v, told, near) : null,
      goesWith(told, app.nodes, app.select),
      node.latent ? null : profile(found, app.nodes, v, told, near),
      table(app.engine.table(v), app.nodes),
    ];
    later.replaceChildren(...parts.filter(Boolean));
  }

  Object.assign(latentia, { showDetails, conditioned, information, section });
})((globalThis.latentia ??= {}));
