"use strict";
// Draws each plot when it can be seen: those in closed sections when they are opened, all of them for paper. Tables that
// are closed stay so on paper, where they would take fifty pages.
(() => {
  // Half of A4 less margins, in CSS pixels: two plots stand side by side.
  const PAPER_WIDTH = 320;
  const canvases = [...document.querySelectorAll(".canvas")];
  const sections = [...document.querySelectorAll("details")];
  const touch = matchMedia("(pointer: coarse)").matches;
  let paper = false;

  function draw(canvas) {
    const space = Math.floor(canvas.clientWidth);
    const width = paper ? PAPER_WIDTH : space;
    if (!space || canvas.width === width) return;
    canvas.width = width;
    const plot = JSON.parse(canvas.nextElementSibling.textContent);
    // A finger that moves over a plot scrolls the page.
    if (touch) plot.layout.dragmode = false;
    Plotly.react(canvas, plot.data, { ...plot.layout, width }, plot.config).then(() => {
      // The legend stands above the plot and takes as many lines as it needs.
      const legend = canvas.querySelector(".legend");
      const extra = legend ? Math.ceil(legend.getBBox().height) : 0;
      if (extra) return Plotly.relayout(canvas, { height: plot.layout.height + extra });
    }).then(() => { canvas.dataset.drawn = width; });
  }

  const drawAll = () => canvases.forEach(draw);

  let opened = [];
  function toPaper(on) {
    if (paper === on) return;
    paper = on;
    if (on) {
      opened = sections.filter((section) => !section.open && section.matches(".phase, .candidate"));
      opened.forEach((section) => { section.open = true; });
    } else {
      opened.forEach((section) => { section.open = false; });
    }
    drawAll();
  }

  sections.forEach((section) => section.addEventListener("toggle", drawAll));
  addEventListener("resize", drawAll);
  addEventListener("beforeprint", () => toPaper(true));
  addEventListener("afterprint", () => toPaper(false));
  matchMedia("print").addEventListener("change", (print) => toPaper(print.matches));
  // A link into a closed section opens it.
  addEventListener("hashchange", () => {
    const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (target && target.tagName === "DETAILS") target.open = true;
  });
  drawAll();
})();
