"use strict";
// Interactive features of the page of several runs: the reader chooses runs, candidates and phases, and figures are relative to the
// best of the choice, which is kept in the page's address.
(() => {
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];
  const form = document.querySelector("form.choose");
  const boxes = all("input", form);
  const status = document.getElementById("chosen");

  const digits = (value) => (value >= 999.5 ? String(Math.round(value)) : String(Number(value.toPrecision(3))));

  function chosen(of) {
    return new Set(boxes.filter((box) => box.name === of && box.checked).map((box) => box.value));
  }

  // Shown and ranked figures of a column, grouped by comparability.
  function ranked(rows, column) {
    const groups = new Map();
    for (const row of rows) {
      const cell = row.cells[column];
      if (!cell.dataset.ns || cell.dataset.out) continue;
      groups.set(cell.dataset.group, [...(groups.get(cell.dataset.group) ?? []), cell]);
    }
    return groups;
  }

  function relate(rows, column) {
    for (const row of rows) row.cells[column].classList.remove("leader");
    const groups = ranked(rows, column);
    for (const cells of groups.values()) {
      const best = cells.reduce((one, other) => (Number(other.dataset.ns) < Number(one.dataset.ns) ? other : one));
      const end = Number(best.dataset.high ?? best.dataset.ns);
      for (const cell of cells) {
        const ratio = Number(cell.dataset.ns) / Number(best.dataset.ns);
        cell.dataset.ratio = ratio;
        const alone = cells.length === 1;
        cell.querySelector(".ratio").textContent = alone ? "alone" : digits(ratio);
        const leads = cell === best || Number(cell.dataset.low ?? cell.dataset.ns) <= end;
        cell.classList.toggle("leader", !alone && leads);
      }
    }
    return groups;
  }

  // Geometric mean over the columns common to all rows with any ranked figure; a single column has no mean.
  function means(table, rows, columns) {
    const has = (row, column) => row.cells[column].dataset.ns && !row.cells[column].dataset.out;
    const counting = rows.filter((row) => columns.some((column) => has(row, column)));
    const common = columns.filter((column) => {
      const groups = new Set(counting.map((row) => has(row, column) && row.cells[column].dataset.group));
      return counting.length > 1 && groups.size === 1 && !groups.has(false) && !groups.has(undefined);
    });
    for (const row of rows) {
      const cell = row.cells[1];
      const mean = counting.includes(row) && common.length > 1
        ? Math.exp(common.reduce((sum, column) => sum + Math.log(Number(row.cells[column].dataset.ratio)), 0) / common.length)
        : null;
      row.dataset.mean = mean ?? Infinity;
      cell.textContent = mean === null ? "–" : digits(mean);
      cell.style.setProperty("--share", mean === null ? "0%" : `${100 / mean}%`);
    }
    const heads = table.tHead.rows[0].cells;
    const names = common.map((column) => heads[column].dataset.phase).join(", ");
    table.closest(".scroll").nextElementSibling.textContent = common.length > 1
      ? `Mean: geometric, over the phases that every shown candidate has (${names}).`
      : "Mean: none, because no two phases have a figure to compare of every shown candidate.";
  }

  function show() {
    const [runs, stores, phases] = ["run", "store", "phase"].map(chosen);
    let shown = 0;
    for (const table of all("table.chosen")) {
      const heads = [...table.tHead.rows[0].cells];
      const columns = heads.map((_, index) => index).slice(2).filter((index) => phases.has(heads[index].dataset.phase));
      const rows = [];
      for (const row of table.tBodies[0].rows) {
        row.hidden = !(runs.has(row.dataset.run) && stores.has(row.dataset.store));
        if (!row.hidden) rows.push(row);
      }
      for (const row of [table.tHead.rows[0], ...table.tBodies[0].rows]) {
        for (let index = 2; index < heads.length; index += 1) row.cells[index].hidden = !columns.includes(index);
      }
      for (const column of columns) relate(rows, column);
      means(table, rows, columns);
      const order = [...table.tBodies[0].rows].sort((one, other) => {
        const [a, b] = [Number(one.dataset.mean), Number(other.dataset.mean)];
        return a === b ? 0 : a - b;
      });
      heads.forEach((head) => { head.ariaSort = null; });
      table.tBodies[0].append(...order);
      const box = table.closest(".scroll");
      box.hidden = rows.length === 0;
      box.nextElementSibling.hidden = rows.length === 0;
      shown += rows.length;
    }
    for (const section of all("section.side")) section.hidden = all(".scroll", section).every((box) => box.hidden);
    status.textContent = `${shown} rows are shown, in ${phases.size} phases.`;
  }

  // ---- the address -----------------------------------------------------------------------------------------------

  function keep() {
    const off = boxes.filter((box) => !box.checked).map((box) => [box.name, box.value]);
    const text = off.length > 0 ? `#without?${new URLSearchParams(off)}` : "#choose";
    history.replaceState(null, "", text);
  }

  function recall() {
    const [name, query] = location.hash.split("?");
    if (name !== "#without") return;
    const off = new URLSearchParams(query ?? "");
    for (const box of boxes) box.checked = !off.getAll(box.name).includes(box.value);
  }

  form.addEventListener("change", () => { show(); keep(); });
  form.addEventListener("submit", (event) => event.preventDefault());
  for (const button of all("button[data-every]", form)) {
    button.addEventListener("click", () => {
      for (const box of all("input", button.closest("fieldset"))) box.checked = Boolean(button.dataset.every);
      show();
      keep();
    });
  }
  addEventListener("hashchange", () => { recall(); show(); });
  recall();
  show();
})();
