"use strict";
// The filter of the failed tests. Without this script the page shows all of them.
(() => {
  const PAGE = 20;
  const form = document.querySelector(".filter");
  if (form) {
    const examples = [...document.querySelectorAll(".example")];
    const keys = ["task", "model", "category"];
    const more = document.querySelector(".more");
    const none = document.querySelector(".none");
    let room = PAGE;

    const matches = (example, without) =>
      keys.every((key) => key === without || !form.elements[key].value || example.dataset[key] === form.elements[key].value);

    // A choice that would leave nothing, given the other two, cannot be made.
    const limitChoices = () => {
      for (const key of keys) {
        const possible = new Set(examples.filter((example) => matches(example, key)).map((example) => example.dataset[key]));
        for (const option of form.elements[key].options) option.disabled = option.value !== "" && !possible.has(option.value);
      }
    };

    const show = () => {
      const found = examples.filter((example) => matches(example));
      const visible = new Set(found.slice(0, room));
      for (const example of examples) example.hidden = !visible.has(example);
      form.querySelector("output").textContent = `${visible.size} of ${found.length} shown`;
      none.hidden = found.length > 0;
      more.hidden = visible.size === found.length;
      limitChoices();
    };

    form.addEventListener("change", () => { room = PAGE; show(); });
    form.addEventListener("submit", (event) => event.preventDefault());
    more.addEventListener("click", () => { room += PAGE; show(); });
    form.hidden = false;
    show();
  }
  // On paper nothing can be unfolded.
  window.addEventListener("beforeprint", () => {
    for (const details of document.querySelectorAll("details")) details.open = true;
  });
})();
