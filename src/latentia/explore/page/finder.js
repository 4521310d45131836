// Finding one of many variables.
(function (latentia) {
  "use strict";
  const { el } = latentia;

  /** A field that leads to a variable by its name. */
  function finder(app) {
    const names = el(
      "datalist",
      { id: "names" },
      ...app.nodes.map((node) => el("option", { value: node.name })),
    );
    const field = el("input", {
      type: "search",
      list: "names",
      placeholder: "Find a variable",
      "aria-label": "Find a variable",
      autocomplete: "off",
      onchange: () => {
        const asked = field.value.trim().toLowerCase();
        const begins = (node) => asked && node.name.toLowerCase().startsWith(asked);
        const exact = app.nodes.findIndex((node) => node.name === field.value.trim());
        const v = exact >= 0 ? exact : app.nodes.findIndex(begins);
        app.tell(asked && v < 0 ? `There is no variable called ${field.value.slice(0, 60)}.` : "");
        if (v >= 0) app.lead(v);
      },
    });
    return el("span", { class: "find" }, field, names);
  }

  Object.assign(latentia, { finder });
})((globalThis.latentia ??= {}));
