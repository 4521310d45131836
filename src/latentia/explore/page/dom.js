// Elements and numbers as text. Names from data are only ever text here, never markup.
(function (latentia) {
  "use strict";

  const SVG = "http://www.w3.org/2000/svg";

  /** An element: attributes, `on…` handlers, and children that are nodes or text. */
  function el(tag, attributes = {}, ...children) {
    return filled(document.createElement(tag), attributes, children);
  }

  /** The same for pictures. */
  function svg(tag, attributes = {}, ...children) {
    return filled(document.createElementNS(SVG, tag), attributes, children);
  }

  function filled(element, attributes, children) {
    for (const [name, value] of Object.entries(attributes)) {
      if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
      else if (value === true) element.setAttribute(name, "");
      else if (value !== false && value !== null && value !== undefined) {
        element.setAttribute(name, value);
      }
    }
    element.append(...children.flat().filter((child) => child !== null && child !== undefined));
    return element;
  }

  /** The first line of a page: its title, and what stands beside it. */
  function titleLine(title, ...parts) {
    return el("div", { class: "line" }, el("h1", { title }, title), ...parts);
  }

  /** A probability for people: 35.2 %, <0.1 %. */
  function percent(p) {
    if (p === 0) return "0 %";
    if (p < 0.0005) return "<0.1 %";
    if (p > 0.9995 && p < 1) return ">99.9 %";
    if (p >= 1) return "100 %";
    return `${(100 * p).toFixed(1)} %`;
  }

  /** A probability of any size, told by its log. */
  function probability(log) {
    if (log === -Infinity) return "0";
    const p = Math.exp(log);
    if (p >= 0.001) return p >= 0.9999995 && p <= 1.0000005 ? "1" : p.toPrecision(4);
    const ten = log / Math.LN10,
      whole = Math.floor(ten);
    return `${(10 ** (ten - whole)).toFixed(2)} × 10${raised(whole)}`;
  }

  function raised(whole) {
    return [...String(whole)].map((c) => (c === "-" ? "⁻" : "⁰¹²³⁴⁵⁶⁷⁸⁹"[c])).join("");
  }

  /** A number in about five characters. */
  function short(x) {
    if (x === 0 || !Number.isFinite(x)) return String(x);
    const size = Math.abs(x);
    if (size >= 1e5 || size < 1e-3) return x.toExponential(1);
    return String(Number(x.toPrecision(3)));
  }

  Object.assign(latentia, { el, svg, titleLine, percent, probability, short });
})((globalThis.latentia ??= {}));
