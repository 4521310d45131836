// Canvas: a world that can be moved and zoomed, by mouse, fingers and keys.
(function (latentia) {
  "use strict";
  const { el, svg } = latentia;

  const LEAST = 0.08,
    MOST = 2.5;

  class Canvas {
    constructor(label) {
      this.edges = svg("svg", { class: "edges", "aria-hidden": "true" });
      this.world = el("div", { class: "world" }, this.edges);
      const button = (text, name, act) =>
        el("button", { type: "button", title: name, "aria-label": name, onclick: act }, text);
      this.element = el(
        "div",
        { class: "canvas", tabindex: 0, role: "region", "aria-label": label },
        this.world,
        el(
          "div",
          { class: "zoom" },
          button("+", "Zoom in", () => this.zoom(1.25)),
          button("−", "Zoom out", () => this.zoom(0.8)),
          button("⤢", "Show all", () => this.fit()),
        ),
      );
      this.x = 0;
      this.y = 0;
      this.scale = 1;
      this.extent = [0, 0, 1, 1]; // left, top, width, height
      this.fitted = true; // nobody has moved it since all was shown
      this._pointers();
      this._keys();
      new ResizeObserver(() => this.fitted && this.fit()).observe(this.element);
    }

    _apply() {
      this.world.style.transform = `translate(${this.x}px, ${this.y}px) scale(${this.scale})`;
    }

    /** Everything that lies in these boxes can be seen. */
    fit() {
      this.fitted = true;
      const [left, top, width, height] = this.extent;
      const room = this.element.getBoundingClientRect();
      if (!room.width) return;
      const scale = Math.min((room.width - 48) / width, (room.height - 48) / height, 1.15);
      this.scale = Math.max(scale, LEAST);
      this.x = (room.width - width * this.scale) / 2 - left * this.scale;
      this.y = Math.max((room.height - height * this.scale) / 2, 24) - top * this.scale;
      this._apply();
    }

    zoom(factor, at = null) {
      this.fitted = false;
      const room = this.element.getBoundingClientRect();
      const [px, py] = at || [room.width / 2, room.height / 2];
      const scale = Math.min(Math.max(this.scale * factor, LEAST), MOST);
      this.x = px - ((px - this.x) * scale) / this.scale;
      this.y = py - ((py - this.y) * scale) / this.scale;
      this.scale = scale;
      this._apply();
    }

    move(dx, dy) {
      this.fitted = false;
      this.x += dx;
      this.y += dy;
      this._apply();
    }

    /** A box in the middle, large enough to be read. */
    centre([x, y, width, height]) {
      const room = this.element.getBoundingClientRect();
      this.scale = Math.max(this.scale, 0.9);
      this.x = room.width / 2 - (x + width / 2) * this.scale;
      this.y = room.height / 2 - (y + height / 2) * this.scale;
      this.move(0, 0);
    }

    /** Brings a box into view, if it is not. */
    reveal([x, y, width, height]) {
      const room = this.element.getBoundingClientRect();
      const [left, top] = [x * this.scale + this.x, y * this.scale + this.y];
      const [right, bottom] = [left + width * this.scale, top + height * this.scale];
      const dx = left < 8 ? 8 - left : Math.min(room.width - 8 - right, 0);
      const dy = top < 8 ? 8 - top : Math.min(room.height - 8 - bottom, 0);
      if (dx || dy) this.move(dx, dy);
    }

    _pointers() {
      const down = new Map();
      let apart = 0;
      const spread = () => {
        const [a, b] = [...down.values()];
        return Math.hypot(a.clientX - b.clientX, a.clientY - b.clientY);
      };
      this.element.addEventListener("pointerdown", (event) => {
        if (event.target.closest("button, input, .chart")) return;
        down.set(event.pointerId, event);
        if (down.size === 2) apart = spread();
        this.element.setPointerCapture(event.pointerId);
        this.element.classList.add("moving");
      });
      this.element.addEventListener("pointermove", (event) => {
        const before = down.get(event.pointerId);
        if (!before) return;
        down.set(event.pointerId, event);
        if (down.size === 1) {
          this.move(event.clientX - before.clientX, event.clientY - before.clientY);
        } else if (down.size === 2) {
          const room = this.element.getBoundingClientRect(),
            now = spread();
          const [a, b] = [...down.values()];
          const middle = [
            (a.clientX + b.clientX) / 2 - room.left,
            (a.clientY + b.clientY) / 2 - room.top,
          ];
          this.zoom(now / (apart || now), middle);
          apart = now;
        }
      });
      const up = (event) => {
        down.delete(event.pointerId);
        if (!down.size) this.element.classList.remove("moving");
      };
      this.element.addEventListener("pointerup", up);
      this.element.addEventListener("pointercancel", up);
      this.element.addEventListener(
        "wheel",
        (event) => {
          event.preventDefault();
          const room = this.element.getBoundingClientRect();
          const at = [event.clientX - room.left, event.clientY - room.top];
          this.zoom(Math.exp(-Math.max(-120, Math.min(120, event.deltaY)) / 400), at);
        },
        { passive: false },
      );
    }

    _keys() {
      this.element.addEventListener("keydown", (event) => {
        if (event.target !== this.element || event.ctrlKey || event.metaKey || event.altKey) return;
        const act = {
          "+": () => this.zoom(1.25),
          "=": () => this.zoom(1.25),
          "-": () => this.zoom(0.8),
          0: () => this.fit(),
          ArrowLeft: () => this.move(60, 0),
          ArrowRight: () => this.move(-60, 0),
          ArrowUp: () => this.move(0, 60),
          ArrowDown: () => this.move(0, -60),
        }[event.key];
        if (!act) return;
        event.preventDefault();
        act();
      });
    }

    /** Lines between boxes; `directed` ones end in an arrow. */
    draw(lines, directed, sideways) {
      const [left, top, width, height] = this.extent;
      const margin = 40;
      Object.entries({
        viewBox: `${left - margin} ${top - margin} ${width + 2 * margin} ${height + 2 * margin}`,
        width: width + 2 * margin,
        height: height + 2 * margin,
      }).forEach(([name, value]) => this.edges.setAttribute(name, value));
      this.edges.style.left = `${left - margin}px`;
      this.edges.style.top = `${top - margin}px`;
      const marker = svg(
        "marker",
        {
          id: "arrow",
          viewBox: "0 0 10 10",
          refX: 9,
          refY: 5,
          markerWidth: 8,
          markerHeight: 8,
          orient: "auto-start-reverse",
          markerUnits: "userSpaceOnUse",
        },
        svg("path", { d: "M0 1 L10 5 L0 9 z", class: "arrow" }),
      );
      const paths = lines.map(({ points, name }) =>
        svg("path", {
          d: curve(points, sideways),
          class: "edge",
          "data-edge": name,
          "marker-end": directed ? "url(#arrow)" : null,
        }),
      );
      this.edges.replaceChildren(svg("defs", {}, marker), ...paths);
    }
  }

  /** Soft bends along the layers (null: none); level and upright pieces stay straight. */
  function curve(points, sideways) {
    let path = `M${points[0][0]} ${points[0][1]}`;
    for (let k = 1; k < points.length; k++) {
      const [x0, y0] = points[k - 1],
        [x1, y1] = points[k];
      const straight = sideways === null || Math.abs(x1 - x0) < 1 || Math.abs(y1 - y0) < 1;
      if (straight) path += `L${x1} ${y1}`;
      else if (sideways) path += `C${(x0 + x1) / 2} ${y0} ${(x0 + x1) / 2} ${y1} ${x1} ${y1}`;
      else path += `C${x0} ${(y0 + y1) / 2} ${x1} ${(y0 + y1) / 2} ${x1} ${y1}`;
    }
    return path;
  }

  Object.assign(latentia, { Canvas });
})((globalThis.latentia ??= {}));
