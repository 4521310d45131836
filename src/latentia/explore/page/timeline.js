// Strips along time: bands of states, lines of numbers, fans of what may come.
(function (latentia) {
  "use strict";
  const { svg, short } = latentia;

  const WIDTH = 1000; // units of a strip; it is stretched to the room there is
  const HUES = [212, 28, 130, 280, 350, 175, 52, 240, 95, 310, 10, 190];

  /** The colour of a state; beyond twelve they come again, paler. */
  function colour(k) {
    return `hsl(${HUES[k % HUES.length]} ${k < HUES.length ? 62 : 30}% var(--light))`;
  }

  /** Where steps lie: `steps` of the past from `first` on, then `ahead` to come. */
  class Scale {
    constructor(first, steps, ahead) {
      Object.assign(this, { first, steps, ahead });
      this.unit = WIDTH / Math.max(steps + ahead, 1);
    }

    /** The left end of a step, counted from the first that is shown. */
    x(t) {
      return t * this.unit;
    }

    middle(t) {
      return (t + 0.5) * this.unit;
    }

    step(share) {
      return Math.min(Math.floor((share * WIDTH) / this.unit), this.steps + this.ahead - 1);
    }
  }

  function strip(name, height, ...parts) {
    return svg(
      "svg",
      {
        class: "strip",
        viewBox: `0 0 ${WIDTH} ${height}`,
        preserveAspectRatio: "none",
        height,
        role: "img",
        "aria-label": name,
      },
      ...parts,
    );
  }

  /** Runs of equal states as boxes of colour; null is a hole. */
  function bands(name, states, scale, height = 22) {
    const parts = [];
    for (let from = 0; from < states.length;) {
      let to = from + 1;
      while (to < states.length && states[to] === states[from]) to++;
      if (states[from] !== null) {
        const box = svg("rect", {
          x: scale.x(from),
          width: Math.max(scale.x(to) - scale.x(from), 0.6),
          y: 0,
          height,
        });
        box.style.fill = colour(states[from]);
        parts.push(box);
      }
      from = to;
    }
    return strip(name, height, ...parts);
  }

  /** P(state) one upon the other, past and future; (states, steps) each. */
  function shares(name, past, ahead, scale, height = 46) {
    const all = past.map((row, k) => [...row, ...(ahead ? ahead[k] : [])]);
    const steps = all[0].length,
      below = new Array(steps).fill(0);
    const parts = all.map((row, k) => {
      let up = "",
        down = "";
      for (let t = 0; t < steps; t++) {
        const [x, next] = [scale.x(t).toFixed(2), scale.x(t + 1).toFixed(2)];
        const low = (height * (1 - below[t])).toFixed(2);
        below[t] += row[t] ?? 0;
        const high = (height * (1 - below[t])).toFixed(2);
        up += `L${x} ${high}L${next} ${high}`;
        down = `L${next} ${low}L${x} ${low}${down}`;
      }
      const path = svg("path", { d: `M${up.slice(1)}${down}Z` });
      path.style.fill = colour(k);
      return path;
    });
    return strip(name, height, ...parts, now(scale, height));
  }

  /** The line between what was and what may come. */
  function now(scale, height) {
    if (!scale.ahead) return null;
    const x = scale.x(scale.steps);
    return svg("path", { class: "now", d: `M${x} 0V${height}` });
  }

  /** Numbers as a line, and a fan (low, middle, high) behind it. */
  function line(name, values, fan, scale, height = 64) {
    const every = [...values, ...(fan ? fan.flat() : [])].filter((x) => x !== null);
    const low = Math.min(...every),
      high = Math.max(...every);
    const y = (x) => 3 + (height - 6) * (high > low ? (high - x) / (high - low) : 0.5);
    const at = (x, t) => `${scale.middle(t).toFixed(2)} ${y(x).toFixed(2)}`;
    let path = "",
      open = false;
    values.forEach((x, t) => {
      if (x !== null) path += `${open ? "L" : "M"}${at(x, t)}`;
      open = x !== null;
    });
    const alone = values
      .map((x, t) => [x, t])
      .filter(
        ([x, t]) =>
          x !== null && (values[t - 1] ?? null) === null && (values[t + 1] ?? null) === null,
      )
      .map(([x, t]) => `M${at(x, t)}h0.01`);
    const parts = [svg("path", { class: "curve", d: path + alone.join("") })];
    if (fan?.length) {
      const start = values.length;
      const [bottom, middle, top] = fan.map((row) => row.map((x, k) => at(x, start + k)));
      parts.unshift(
        svg("path", { class: "fan", d: `M${bottom.join("L")}L${[...top].reverse().join("L")}Z` }),
      );
      parts.push(svg("path", { class: "curve ahead", d: `M${middle.join("L")}` }));
    }
    const drawn = strip(
      `${name}, from ${short(low)} to ${short(high)}`,
      height,
      ...parts,
      now(scale, height),
    );
    return { drawn, low, high };
  }

  /** A lane for every state: where it was seen, and behind that how probable it is. */
  function lanes(name, states, values, ahead, scale) {
    const tall = Math.max(Math.min(16, 160 / states.length), 3),
      height = tall * states.length;
    const parts = [];
    for (let from = 0; from < values.length;) {
      let to = from + 1;
      while (to < values.length && values[to] === values[from]) to++;
      if (values[from] !== null)
        parts.push(
          svg("rect", {
            class: "seen",
            x: scale.x(from),
            width: Math.max(scale.x(to) - scale.x(from), 0.6),
            y: tall * values[from] + 1,
            height: tall - 2,
          }),
        );
      from = to;
    }
    (ahead ?? []).forEach((row, k) =>
      row.forEach((p, t) => {
        const box = svg("rect", {
          class: "may",
          x: scale.x(values.length + t),
          width: scale.unit,
          y: tall * k + 1,
          height: tall - 2,
        });
        box.style.opacity = String(p);
        parts.push(box);
      }),
    );
    return { drawn: strip(name, height, ...parts, now(scale, height)), tall };
  }

  Object.assign(latentia, { Scale, timeline: { bands, shares, line, lanes, colour } });
})((globalThis.latentia ??= {}));
