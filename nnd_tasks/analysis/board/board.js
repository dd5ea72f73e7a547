"use strict";
// Tables that can be sorted, and the filter of the front page. Without this script a page shows everything, in its own order.
(() => {
  const tables = [...document.querySelectorAll("table.board")];

  // ------------------------------------------------------------ sorting
  const compare = (numeric) => (a, b) => numeric ? Number(a) - Number(b) : a.localeCompare(b, "en");

  const sort = (table, head, descending) => {
    const column = [...head.parentElement.cells].indexOf(head);
    const order = compare(head.dataset.sort === "number");
    const body = table.tBodies[0];
    const value = (row) => row.cells[column].dataset.value;
    const rows = [...body.rows];
    const filled = rows.filter((row) => value(row) !== undefined);
    filled.sort((a, b) => (descending ? -1 : 1) * order(value(a), value(b)));
    body.append(...filled, ...rows.filter((row) => value(row) === undefined));  // what has no value stays last
    for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", descending ? "descending" : "ascending");
  };

  for (const table of tables) {
    for (const head of table.querySelectorAll("th[data-sort]")) {
      const button = document.createElement("button");
      const name = (head.querySelector("a") ?? head).textContent.trim();
      button.type = "button";
      button.className = "sort";
      button.textContent = "↕";
      button.setAttribute("aria-label", `Sort by ${name}`);
      button.addEventListener("click", () => {
        const now = head.getAttribute("aria-sort");
        // Numbers begin with the largest, names with A.
        const descending = now ? now === "ascending" : head.dataset.sort === "number";
        sort(table, head, descending);
        for (const other of table.querySelectorAll(".sort")) other.textContent = "↕";
        button.textContent = descending ? "↓" : "↑";
      });
      (head.querySelector("a") ?? head.lastChild).after(button);
    }
  }

  // ------------------------------------------------------------ the filter
  const form = document.querySelector(".filter");
  if (form) {
    const fields = [...form.elements].filter((element) => element.name);
    // A row or a column without a property, such as a column without a language, fits every choice.
    const fits = (element) => fields.every((field) => {
      const has = element.dataset[field.name];
      return !field.value || has === undefined || has.split("|").includes(field.value);
    });
    const apply = () => {
      const counts = [];
      for (const table of tables) {
        const shown = [...table.tHead.rows[0].cells].map(fits);
        const isSet = [...table.tHead.rows[0].cells].map((head) => head.dataset.set !== undefined);
        const rows = [...table.tHead.rows, ...table.tBodies[0].rows];
        for (const row of rows) [...row.cells].forEach((cell, i) => { cell.hidden = !shown[i]; });
        for (const row of table.tBodies[0].rows) {
          const some = !isSet.includes(true) || [...row.cells].some((cell, i) => isSet[i] && shown[i] && cell.dataset.value !== undefined);
          row.hidden = !fits(row) || !some;
        }
        const left = [...table.tBodies[0].rows].filter((row) => !row.hidden).length;
        table.closest("section").hidden = left === 0;
        counts.push(`${left} of ${table.tBodies[0].rows.length} ${table.dataset.what}`);
      }
      const chosen = fields.some((field) => field.value);
      form.querySelector("output").textContent = chosen ? `Shown: ${counts.join(", ")}` : "";
    };
    form.addEventListener("change", apply);
    form.addEventListener("submit", (event) => event.preventDefault());
    form.hidden = fields.length === 0;
    apply();
  }
  // On paper nothing can be unfolded.
  window.addEventListener("beforeprint", () => {
    for (const details of document.querySelectorAll("details:not(.sig)")) details.open = true;
  });
})();
