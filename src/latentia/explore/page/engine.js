// Who answers: the page itself by its junction tree, or Python through the server of the page.
(function (latentia) {
  "use strict";

  /**
   * Answers in the page; nodes are those shown, variables those of a junction tree.
   *
   * A model may predict its columns by another network than that of its latents: then columns are
   * answered by it, unless a latent is known.
   */
  class LocalEngine {
    constructor(facts) {
      this.nodes = facts.nodes;
      this.network = facts.network;
      this.tree = latentia.wire(facts.network);
      this.cut = { key: "", tree: this.tree }; // the last one with variables set by hand
      this.places = facts.network.places;
      this.columns = facts.columns && latentia.wire(facts.columns);
      this.columnPlaces = facts.columns?.places;
    }

    _placed(likelihoods, places = this.places) {
      return new Map([...likelihoods].map(([v, weights]) => [places[v], weights]));
    }

    /** The junction tree in which these nodes are set by hand. */
    _treeWith(hand) {
      const key = [...hand].sort().join();
      if (key !== this.cut.key) {
        const places = new Set([...hand].map((v) => this.places[v]));
        this.cut = { key, tree: hand.size ? latentia.wire(this.network, places) : this.tree };
      }
      return this.cut.tree;
    }

    /** `coherent`: everything by the tables of the graph. */
    async answer(likelihoods, coherent = false) {
      const found = latentia.infer(this._treeWith(likelihoods.hand), this._placed(likelihoods));
      const own = (v) => (this.places[v] >= 0 ? (found.marginals?.[this.places[v]] ?? null) : null);
      const hidden = [...likelihoods.keys()].some((v) => this.nodes[v].latent);
      if (!this.columns || coherent || hidden || likelihoods.hand.size) {
        const marginals = found.marginals && this.nodes.map((_, v) => own(v));
        return { log: found.log, marginals, up: found.up, down: found.down };
      }
      const told = latentia.infer(this.columns, this._placed(likelihoods, this.columnPlaces));
      const column = (v) => told.marginals[this.columnPlaces[v]] ?? null;
      const marginals =
        told.marginals && this.nodes.map((node, v) => (node.latent ? own(v) : column(v)));
      return { log: told.log, marginals, up: found.up, down: found.down };
    }

    async explain(likelihoods) {
      const { states, log } = latentia.explain(
        this._treeWith(likelihoods.hand),
        this._placed(likelihoods),
      );
      const own = (node) => (node.place >= 0 ? states[node.place] : null);
      return { states: states && this.nodes.map(own), log };
    }

    /** P(v | parents): its scope, and its cells in that order. */
    table(v) {
      const scope = this.tree.scopes.find((s) => s[s.length - 1] === this.nodes[v].place);
      const shown = scope?.map((u) => this.nodes.findIndex((node) => node.place === u));
      if (!scope || shown.includes(-1)) return null;
      return {
        scope: shown,
        cells: this.tree.tables.get(scope),
        errors: this.tree.spread.get(scope) ?? null,
      };
    }
  }

  /** Asks the server that the page came from. */
  class RemoteEngine {
    constructor(server, model) {
      this.server = server;
      this.model = model;
    }

    _told(likelihoods) {
      const evidence = [...likelihoods].map(([v, weights]) => [v, [...weights]]);
      return { model: this.model, evidence, hand: [...likelihoods.hand] };
    }

    async answer(likelihoods, coherent = false) {
      const asked = { ...this._told(likelihoods), coherent };
      const found = await this.server.ask("answer", asked);
      return { ...found, log: found.log === null ? -Infinity : found.log, up: [], down: [] };
    }

    async explain(likelihoods) {
      const found = await this.server.ask("explain", this._told(likelihoods));
      return { ...found, log: found.log === null ? -Infinity : found.log };
    }

    table() {
      return null;
    }
  }

  /** Requests with the token that came with the page's address. */
  class Server {
    constructor(token) {
      this.token = token;
    }

    async ask(what, body) {
      const answer = await fetch(`api/${what}`, {
        method: "POST",
        headers: { "Content-Type": "application/json", "X-Latentia-Token": this.token },
        body: JSON.stringify(body),
      }).catch(() => {
        throw new Error("The server does not answer; it may have been ended. Start it again.");
      });
      const found = await answer.json().catch(() => ({}));
      if (!answer.ok) throw new Error(found.error || `The server failed (${answer.status}).`);
      return found;
    }
  }

  Object.assign(latentia, { LocalEngine, RemoteEngine, Server });
})((globalThis.latentia ??= {}));
