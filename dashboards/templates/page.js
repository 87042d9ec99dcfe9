/* Draws every chart of the page with the bundle that the page carries, in the reader's colours and at the width there is.
   SWAPS maps each light colour to its dark partner. */
(function () {
  "use strict";
  const root = document.documentElement;
  const button = document.getElementById("theme");
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const drawn = new Map();
  const stated = "640"; // the width the charts are built with

  function stored() { try { return localStorage.getItem("paceline-theme"); } catch (error) { return null; } }
  function store(name) { try { localStorage.setItem("paceline-theme", name); } catch (error) { /* a private window keeps nothing */ } }
  function theme() { return root.dataset.theme || (dark.matches ? "dark" : "light"); }

  /* A copy of the chart in the page's colours and width; its rows are shared, not copied. */
  function adapted(node, colours, width, key) {
    if (key === "datasets") return node;
    if (typeof node === "string") return colours && Object.hasOwn(SWAPS, node) ? SWAPS[node] : node;
    if (key === "width" && String(node) === stated) return width;
    if (Array.isArray(node)) return node.map((item) => adapted(item, colours, width));
    if (node && typeof node === "object") {
      return Object.fromEntries(Object.entries(node).map(([name, value]) => [name, adapted(value, colours, width, name)]));
    }
    return node;
  }

  async function embed(place, source, width) {
    const spec = adapted(source, theme() === "dark", width);
    delete spec.title; // the page's heading says it
    spec.config.legend.labelLimit = Math.max(260, place.clientWidth - 90);
    if (place.clientWidth < 480) spec.config.legend.columns = 2;
    const rows = Object.values(source.datasets || {}).reduce((sum, part) => sum + (typeof part === "string" ? part.split("\n") : part).length, 0);
    const options = { actions: false, renderer: rows > 6000 ? "canvas" : "svg", tooltip: { theme: theme() } };
    if (drawn.has(place)) {
      const before = drawn.get(place).view; // what the reader chose from a list stays chosen
      for (const param of spec.params || []) if (param.bind && param.bind.input) param.value = before.signal(param.name);
      drawn.get(place).finalize();
    }
    const result = await window.vegaEmbed(place, spec, options);
    drawn.set(place, result);
    for (const part of place.querySelectorAll("[role^=graphics]:not([aria-label])")) { // Vega gives them a role and no name
      part.removeAttribute("role");
      part.removeAttribute("aria-roledescription");
    }
    return place.querySelector("svg, canvas").getBoundingClientRect().width;
  }

  async function draw(place) {
    const source = JSON.parse(document.getElementById("spec-" + place.dataset.chart).textContent);
    const room = place.clientWidth;
    try {
      let width = Math.max(120, Math.min(900, room - 75));
      for (let attempt = 0; attempt < 3; attempt += 1) { // axes and legends take what they need
        const taken = await embed(place, source, width);
        if (taken <= room && (taken > room - 24 || width >= 900)) break;
        width = Math.max(120, Math.min(900, width + room - taken - 4));
      }
      place.dataset.state = "drawn";
    } catch (error) {
      place.dataset.state = "failed";
      place.innerHTML = "";
      place.insertAdjacentElement("afterbegin", Object.assign(document.createElement("p"), {
        className: "failed", textContent: "This chart could not be drawn: " + error.message }));
      console.error(error);
    }
  }

  async function drawAll() {
    root.dataset.charts = "drawing";
    for (const place of document.querySelectorAll("[data-chart]")) await draw(place);
    root.dataset.charts = "ready";
  }

  function name() {
    const other = theme() === "dark" ? "light" : "dark";
    button.textContent = other === "dark" ? "Dark" : "Light";
    button.setAttribute("aria-label", "Switch to " + other + " colours");
  }

  const wanted = stored();
  if (wanted === "dark" || wanted === "light") root.dataset.theme = wanted;
  button.hidden = false;
  name();
  let turn = drawAll();
  function again() { turn = turn.then(drawAll); }
  button.addEventListener("click", () => {
    root.dataset.theme = theme() === "dark" ? "light" : "dark";
    store(root.dataset.theme);
    name();
    again();
  });
  dark.addEventListener("change", () => { if (!root.dataset.theme) { name(); again(); } });
  let last = window.innerWidth, timer = 0;
  window.addEventListener("resize", () => {
    if (window.innerWidth === last) return;
    last = window.innerWidth;
    clearTimeout(timer);
    timer = setTimeout(again, 200);
  });
})();
