// Exact inference on a junction tree: one sweep of messages up, one down (Hugin's form).
//
// Tables are flat Float64Arrays in row-major order. Messages are plain numbers, scaled to a largest
// entry of 1, and their scales are kept as logs. Where evidence is so improbable that plain numbers
// could lose something, everything is done again in logs.
(function (latentia) {
  "use strict";

  const SAFE = -320; // log P(evidence) from which on down numbers are too small to be plain

  /** Joint states of some variables. */
  function size(scope, states) {
    return scope.reduce((n, v) => n * states[v], 1);
  }

  /** For every cell of a table over `scope`: the cell of a table over `part`, within it. */
  function cellMap(scope, part, states) {
    const stride = new Map();
    let step = 1;
    for (let k = part.length - 1; k >= 0; k--) {
      stride.set(part[k], step);
      step *= states[part[k]];
    }
    const sizes = scope.map((v) => states[v]);
    const steps = scope.map((v) => stride.get(v) || 0);
    const map = new Int32Array(size(scope, states));
    const digits = new Array(scope.length).fill(0);
    let at = 0;
    for (let cell = 0; cell < map.length; cell++) {
      map[cell] = at;
      for (let k = scope.length - 1; k >= 0; k--) {
        at += steps[k];
        if (++digits[k] < sizes[k]) break;
        at -= steps[k] * sizes[k];
        digits[k] = 0;
      }
    }
    return map;
  }

  /** Numbers as `packed_numbers` has them: floats, or their places among the different ones. */
  function unpack({ numbers, places }) {
    const view = (text) => new DataView(Uint8Array.from(atob(text), (c) => c.charCodeAt(0)).buffer);
    const floats = view(numbers);
    const all = Float64Array.from({ length: floats.byteLength / 8 }, (_, k) =>
      floats.getFloat64(8 * k, true),
    );
    if (places === undefined) return all;
    const at = view(places);
    return Float64Array.from(
      { length: at.byteLength / 2 },
      (_, k) => all[at.getUint16(2 * k, true)],
    );
  }

  /**
   * The junction tree with its tables multiplied into its cliques, ready to be asked.
   *
   * `cut`: variables that are set by hand, which no longer listen to their parents.
   */
  function wire(network, cut = new Set()) {
    const { states, cliques, parent, order, scopes, homes } = network;
    const cells = unpack(network.cells);
    const errors = network.errors ? unpack(network.errors) : null;
    const psi = cliques.map((clique) => new Float64Array(size(clique, states)).fill(1));
    const tables = new Map(),
      spread = new Map(); // standard errors of tables
    let start = 0;
    scopes.forEach((scope, k) => {
      tables.set(scope, cells.subarray(start, start + size(scope, states)));
      if (errors) spread.set(scope, errors.subarray(start, start + size(scope, states)));
      const first = start;
      start += size(scope, states);
      if (cut.has(scope[scope.length - 1])) return;
      const table = psi[homes[k]];
      const map = cellMap(cliques[homes[k]], scope, states);
      for (let c = 0; c < table.length; c++) table[c] *= cells[first + map[c]];
    });
    let logScale = 0; // potentials may be of any size; probabilities stay about as they are
    for (const table of psi) {
      const top = largest(table);
      if (top > 0) {
        for (let c = 0; c < table.length; c++) table[c] /= top;
        logScale += Math.log(top);
      }
    }
    const shared = cliques.map((clique, i) =>
      parent[i] === i ? [] : clique.filter((v) => cliques[parent[i]].includes(v)),
    );
    const home = states.map(() => -1);
    cliques.forEach((clique, i) => {
      for (const v of clique) {
        if (home[v] < 0 || psi[i].length < psi[home[v]].length) home[v] = i;
      }
    });
    const tree = {
      states,
      cliques,
      parent,
      order,
      scopes,
      tables,
      spread,
      psi,
      shared,
      home,
      logScale,
      below: cliques.map((clique, i) => cellMap(clique, shared[i], states)),
      above: cliques.map((_, i) => cellMap(cliques[parent[i]], shared[i], states)),
      own: states.map((_, v) => cellMap(cliques[home[v]], [v], states)),
      logPsi: null,
      logPartition: 0,
    };
    // 0 for tables of conditional probabilities; what is set by hand has one state only
    if (!cut.size) tree.logPartition = collect(tree, new Map()).log;
    return tree;
  }

  function largest(table) {
    let top = 0;
    for (let c = 0; c < table.length; c++) if (table[c] > top) top = table[c];
    return top;
  }

  function highest(logs) {
    return logs.reduce((a, b) => (b > a ? b : a), -Infinity);
  }

  // --- plain numbers -----------------------------------------------------------------------------

  /** Up: the belief of every clique, the messages over separators, and log Σ of everything. */
  function collect(tree, likelihoods) {
    const beliefs = tree.psi.map((table) => table.slice());
    for (const [v, likelihood] of likelihoods) {
      const belief = beliefs[tree.home[v]],
        map = tree.own[v];
      for (let c = 0; c < belief.length; c++) belief[c] *= likelihood[map[c]];
    }
    const up = new Array(beliefs.length);
    let log = tree.logScale;
    for (let k = tree.order.length - 1; k >= 0; k--) {
      const i = tree.order[k];
      const message = summed(beliefs[i], tree.below[i], size(tree.shared[i], tree.states));
      const top = largest(message);
      log += Math.log(top); // -Infinity: impossible, or too small
      if (!(top > 0)) return { log: -Infinity, beliefs, up };
      for (let s = 0; s < message.length; s++) message[s] /= top;
      up[i] = message;
      if (tree.parent[i] !== i) multiply(beliefs[tree.parent[i]], tree.above[i], message);
    }
    return { log, beliefs, up };
  }

  /** Down: each clique takes what its parent knows beyond what it was told by this child. */
  function distribute(tree, beliefs, up) {
    const down = new Array(beliefs.length);
    for (const i of tree.order) {
      if (tree.parent[i] === i) continue;
      const whole = summed(beliefs[tree.parent[i]], tree.above[i], up[i].length);
      const message = whole.map((x, s) => (up[i][s] > 0 ? x / up[i][s] : 0));
      const top = largest(message);
      down[i] = message.map((x) => x / top);
      multiply(beliefs[i], tree.below[i], down[i]);
    }
    return down;
  }

  function summed(table, map, length) {
    const total = new Float64Array(length);
    for (let c = 0; c < table.length; c++) total[map[c]] += table[c];
    return total;
  }

  function multiply(table, map, message) {
    for (let c = 0; c < table.length; c++) table[c] *= message[map[c]];
  }

  function shares(weights) {
    const total = weights.reduce((a, b) => a + b, 0);
    return weights.map((x) => x / total);
  }

  // --- logs --------------------------------------------------------------------------------------

  function logPsi(tree) {
    tree.logPsi ??= tree.psi.map((table) => table.map(Math.log));
    return tree.logPsi;
  }

  function logBeliefs(tree, likelihoods) {
    const beliefs = logPsi(tree).map((table) => table.slice());
    for (const [v, likelihood] of likelihoods) {
      const belief = beliefs[tree.home[v]],
        map = tree.own[v];
      for (let c = 0; c < belief.length; c++) belief[c] += Math.log(likelihood[map[c]]);
    }
    return beliefs;
  }

  /** The same sweeps in logs; slower, and nothing is too small for it. */
  function inferInLogs(tree, likelihoods) {
    const beliefs = logBeliefs(tree, likelihoods);
    const up = new Array(beliefs.length),
      down = new Array(beliefs.length);
    let log = tree.logScale;
    for (let k = tree.order.length - 1; k >= 0; k--) {
      const i = tree.order[k];
      const message = logSummed(beliefs[i], tree.below[i], size(tree.shared[i], tree.states));
      const top = highest(message);
      if (top === -Infinity) return impossible();
      log += top;
      up[i] = message.map((x) => x - top);
      if (tree.parent[i] !== i) add(beliefs[tree.parent[i]], tree.above[i], up[i]);
    }
    for (const i of tree.order) {
      if (tree.parent[i] === i) continue;
      const whole = logSummed(beliefs[tree.parent[i]], tree.above[i], up[i].length);
      const message = whole.map((x, s) => (up[i][s] > -Infinity ? x - up[i][s] : -Infinity));
      const top = highest(message);
      down[i] = message.map((x) => x - top);
      add(beliefs[i], tree.below[i], down[i]);
    }
    const marginals = tree.states.map((count, v) => {
      const own = logSummed(beliefs[tree.home[v]], tree.own[v], count);
      const top = highest(own);
      return shares(own.map((x) => Math.exp(x - top)));
    });
    const plain = (messages) => messages.map((m) => m && m.map(Math.exp));
    return { log: log - tree.logPartition, marginals, up: plain(up), down: plain(down) };
  }

  function logSummed(table, map, length) {
    const top = new Float64Array(length).fill(-Infinity);
    for (let c = 0; c < table.length; c++) if (table[c] > top[map[c]]) top[map[c]] = table[c];
    const total = new Float64Array(length);
    for (let c = 0; c < table.length; c++) {
      if (table[c] > -Infinity) total[map[c]] += Math.exp(table[c] - top[map[c]]);
    }
    return total.map((x, s) => (x > 0 ? Math.log(x) + top[s] : -Infinity));
  }

  function add(table, map, message) {
    for (let c = 0; c < table.length; c++) table[c] += message[map[c]];
  }

  // --- answers -----------------------------------------------------------------------------------

  function impossible() {
    return { log: -Infinity, marginals: null, up: [], down: [] };
  }

  /**
   * log P(evidence), P(v | evidence) of every variable, and the messages over every separator.
   *
   * `likelihoods`: Map of variable -> an array of a weight for each of its states.
   * `marginals` is null where the evidence is impossible.
   */
  function infer(tree, likelihoods) {
    const { log, beliefs, up } = collect(tree, likelihoods);
    if (!(log > SAFE)) return inferInLogs(tree, likelihoods);
    const down = distribute(tree, beliefs, up);
    const marginals = tree.states.map((count, v) =>
      shares(summed(beliefs[tree.home[v]], tree.own[v], count)),
    );
    return { log: log - tree.logPartition, marginals, up, down };
  }

  /** The most probable state of all variables together: {states, log P(states, evidence)}. */
  function explain(tree, likelihoods) {
    const beliefs = logBeliefs(tree, likelihoods);
    let log = tree.logScale;
    for (let k = tree.order.length - 1; k >= 0; k--) {
      const i = tree.order[k];
      const message = new Float64Array(size(tree.shared[i], tree.states)).fill(-Infinity);
      const belief = beliefs[i],
        map = tree.below[i];
      for (let c = 0; c < belief.length; c++) {
        if (belief[c] > message[map[c]]) message[map[c]] = belief[c];
      }
      if (tree.parent[i] === i) log += message[0];
      else add(beliefs[tree.parent[i]], tree.above[i], message);
    }
    if (log === -Infinity) return { states: null, log };
    const states = new Array(tree.states.length).fill(0);
    for (const i of tree.order) {
      const wanted = flat(tree.shared[i], states, tree.states);
      const belief = beliefs[i],
        map = tree.below[i];
      let best = -1;
      for (let c = 0; c < belief.length; c++) {
        if (map[c] === wanted && (best < 0 || belief[c] > belief[best])) best = c;
      }
      for (let k = tree.cliques[i].length - 1, rest = best; k >= 0; k--) {
        const v = tree.cliques[i][k];
        states[v] = rest % tree.states[v];
        rest = Math.floor(rest / tree.states[v]);
      }
    }
    return { states, log: log - tree.logPartition };
  }

  function flat(scope, values, states) {
    return scope.reduce((cell, v) => cell * states[v] + values[v], 0);
  }

  Object.assign(latentia, { wire, infer, explain, cellMap, unpack, size });
})((globalThis.latentia ??= {}));
