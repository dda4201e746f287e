"use strict";
// Interactive features of a page: tooltips, hiding of lines, and sorting of tables. Collapsed sections are not printed, because
// everything would take twenty pages; sections that the reader expands are.
(() => {
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];

  // ---- tooltips ---------------------------------------------------------------------------------------------------

  // Maximum distance from the pointer in pixels: curves have few points, and fingers are wide.
  const REACH = 40;
  const tip = document.createElement("div");
  tip.className = "tip";
  tip.hidden = true;
  document.body.append(tip);
  // Replaces the browser's own tooltips, which appear late, and not at all on touch screens.
  for (const title of all(".drawn title")) {
    title.parentNode.dataset.tip = title.textContent;
    title.remove();
  }

  function nearest(canvas, x, y) {
    let found = null;
    let least = REACH;
    for (const mark of all("[data-tip]", canvas)) {
      const box = mark.getBoundingClientRect();
      const away = Math.hypot(box.x + box.width / 2 - x, box.y + box.height / 2 - y);
      if (box.width > 0 && away < least) [found, least] = [mark, away];
    }
    return found;
  }

  function point(event) {
    const mark = nearest(event.currentTarget, event.clientX, event.clientY);
    tip.hidden = !mark;
    if (!mark) return;
    tip.textContent = mark.dataset.tip;
    const box = mark.getBoundingClientRect();
    const left = Math.min(box.x + box.width + 8, document.documentElement.clientWidth - tip.offsetWidth - 4);
    tip.style.left = `${Math.max(4, left)}px`;
    tip.style.top = `${Math.max(4, box.y - tip.offsetHeight - 4)}px`;
  }

  for (const canvas of all(".canvas")) {
    canvas.addEventListener("pointermove", point);
    canvas.addEventListener("pointerdown", point);
    canvas.addEventListener("pointerleave", () => { tip.hidden = true; });
  }

  // ---- hiding of lines --------------------------------------------------------------------------------------------

  for (const name of all(".canvas .legend span")) {
    name.addEventListener("click", () => {
      const hidden = name.classList.toggle("hidden");
      const line = `.series[data-of="${name.dataset.of}"]`;
      all(line, name.closest(".canvas")).forEach((series) => series.classList.toggle("hidden", hidden));
    });
  }

  // ---- sorting of tables ------------------------------------------------------------------------------------------

  const UNITS = {
    ns: 1e-9, "µs": 1e-6, ms: 1e-3, s: 1, min: 60, h: 3600,
    B: 1, kB: 1e3, MB: 1e6, GB: 1e9, TB: 1e12, k: 1e3, M: 1e6, G: 1e9,
  };

  // Sort key of a cell: its leading number, scaled by its unit, or else its text.
  function value(row, column) {
    const text = row.cells[column].textContent.trim();
    const figure = text.match(/^[<>~]?\s*(-?[\d.]+)\s*([A-Za-zµ]+)?/);
    return figure ? Number(figure[1]) * (UNITS[figure[2]] ?? 1) : text;
  }

  function compare(one, other) {
    const words = [one, other].map((entry) => typeof entry === "string");
    if (words[0] !== words[1]) return words[0] ? 1 : -1;
    return words[0] ? one.localeCompare(other) : one - other;
  }

  function sort(head) {
    const table = head.closest("table");
    const rows = [...table.tBodies[0].rows];
    const down = head.ariaSort === "ascending";
    const keyed = rows.map((row) => [value(row, head.cellIndex), row]);
    keyed.sort((one, other) => (down ? -1 : 1) * compare(one[0], other[0]));
    all("th", head.parentNode).forEach((other) => { other.ariaSort = null; });
    head.ariaSort = down ? "descending" : "ascending";
    table.tBodies[0].append(...keyed.map(([, row]) => row));
  }

  for (const head of all("thead tr:last-child th")) {
    if (head.closest("table").tBodies[0].rows.length < 3) continue;
    head.tabIndex = 0;
    head.classList.add("sorts");
    head.addEventListener("click", () => sort(head));
    head.addEventListener("keydown", (event) => {
      if (event.key === "Enter" || event.key === " ") {
        event.preventDefault();
        sort(head);
      }
    });
  }

  // ---- collapsed sections -----------------------------------------------------------------------------------------

  // A link into a collapsed section expands it.
  addEventListener("hashchange", () => {
    const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (target && target.tagName === "DETAILS") target.open = true;
  });
})();
