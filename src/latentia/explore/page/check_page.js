// The page of a check report alone.
(function (latentia) {
  "use strict";
  const facts = JSON.parse(document.getElementById("facts").textContent);
  latentia.view = new latentia.CheckView(facts.check);
  document.getElementById("app").replaceChildren(latentia.view.element);
  document.body.classList.add("long");
})((globalThis.latentia ??= {}));
