"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const $ = (id) => document.getElementById(id);
  const percent = (x) => (100 * x).toFixed(1) + "%";

  function made(tag, attributes, ...children) {
    const svg = ["svg", "g", "path", "line", "text", "polyline"].includes(tag);
    const node = svg ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
    for (const [name, value] of Object.entries(attributes || {})) node.setAttribute(name, value);
    node.append(...children);
    return node;
  }

  /* Tables that are sorted by clicking a heading. */
  for (const table of document.querySelectorAll("table.sortable")) {
    const headings = [...table.tHead.rows[0].cells];
    headings.forEach((heading, column) => heading.querySelector("button")?.addEventListener("click", () => {
      const rising = heading.getAttribute("aria-sort") !== "ascending";
      headings.forEach((other) => other.removeAttribute("aria-sort"));
      heading.setAttribute("aria-sort", rising ? "ascending" : "descending");
      const key = (row) => row.cells[column].dataset.value ?? row.cells[column].textContent;
      const compare = (a, b) => {
        const [x, y] = [key(a), key(b)];
        const gap = Number(x) - Number(y);
        return (rising ? 1 : -1) * (Number.isNaN(gap) ? (Number(x) === Number(y) ? 0 : x.localeCompare(y)) : gap);
      };
      table.tBodies[0].append(...[...table.tBodies[0].rows].sort(compare));
    }));
  }

  /* A table or figure wider than the screen fades at the sides where more of it can be scrolled into view. */
  for (const wide of document.querySelectorAll(".scroll")) {
    const fade = () => {
      wide.classList.toggle("more-left", wide.scrollLeft > 1);
      wide.classList.toggle("more-right", wide.scrollWidth - wide.clientWidth - wide.scrollLeft > 1);
    };
    const sizes = new ResizeObserver(fade);
    for (const part of [wide, ...wide.children]) sizes.observe(part);
    wide.addEventListener("scroll", fade, { passive: true });
  }

  /* The chart of size against singletons. */
  const SHAPES = {
    o: "M1 0A1 1 0 1 1-1 0A1 1 0 1 1 1 0Z", s: "M-.9-.9H.9V.9H-.9Z", D: "M0-1.2L1.2 0 0 1.2-1.2 0Z",
    "^": "M0-1.1L1.1.9H-1.1Z", v: "M0 1.1L1.1-.9H-1.1Z", P: "M-.4-1.1H.4V-.4H1.1V.4H.4V1.1H-.4V.4H-1.1V-.4H-.4Z",
    "*": "M0-1.3L.35-.42 1.29-.38.56.22.8 1.1 0 .6-.8 1.1-.56.22-1.29-.38-.35-.42Z",
    X: "M-1-.5L-.5-1 0-.5.5-1 1-.5.5 0 1 .5.5 1 0 .5-.5 1-1 .5-.5 0Z", h: "M0-1.1L1-.55V.55L0 1.1-1 .55V-.55Z",
  };
  const DASHES = ["", "7 4", "2 3", "8 3 2 3"];
  const ink = (colour) => ({ "#111111": "var(--ink)", "#0072b2": "var(--blue)" })[colour] || colour;
  const shape = (dot, x, y, size, kind = "dot") => made("path", { class: kind,
    d: SHAPES[dot.marker] || SHAPES.o, transform: `translate(${x} ${y}) scale(${size})`,
    style: dot.hollow ? `fill: var(--halo); stroke: ${ink(dot.colour)}` : `fill: ${ink(dot.colour)}; stroke: var(--ink)`,
    "stroke-width": dot.hollow ? 2.6 / size : size > 5 ? 1.2 / size : 0,
  });

  function ticks(low, high, wanted) {
    const raw = (high - low) / wanted, power = 10 ** Math.floor(Math.log10(raw));
    const step = [1, 2, 2.5, 5, 10].map((m) => m * power).find((s) => s >= raw);
    const found = [];
    for (let i = Math.ceil(low / step); i * step <= high; i++) found.push(i * step);
    return found;
  }
  function logTicks(low, high) {
    const found = [];
    for (let power = -3; power < 7; power++) for (const m of [1, 2, 5]) found.push(m * 10 ** power);
    return found.filter((x) => x >= low && x <= high);
  }

  const box = $("scatter"), tip = made("div", { class: "tip", role: "status" });
  const { compared, traces, best } = data.front;
  const every = [...compared, ...traces.flatMap((trace) => trace.dots)];
  let placed = [], chosen = -1;
  tip.hidden = true;

  function drawScatter() {
    const width = Math.max(280, box.clientWidth), height = Math.round(Math.min(480, Math.max(300, width * 0.62)));
    const left = 54, right = 18, top = 34, bottom = 50, small = width < 560;
    const xs = every.map((d) => d.x), ys = every.map((d) => d.y);
    const log = Math.min(...xs) > 0 && Math.max(...xs) > data.ratio * Math.min(...xs), f = log ? Math.log : (x) => x;
    const spread = (values) => {
      const low = Math.min(...values), high = Math.max(...values), room = (high - low || Math.abs(high) || 1) * 0.08;
      return [low - room, high + room];
    };
    const [x0, x1] = spread(xs.map(f)), [y0, y1] = spread(ys);
    const px = (x) => left + (f(x) - x0) / (x1 - x0) * (width - left - right);
    const py = (y) => height - bottom - (y - y0) / (y1 - y0) * (height - top - bottom);
    const g = made("g", { class: "drawing" });
    const xTicks = log ? logTicks(Math.exp(x0), Math.exp(x1)) : ticks(x0, x1, small ? 4 : 7);
    const digits = Math.max(...xTicks.map((x) => (String(Number(x.toPrecision(6))).split(".")[1] || "").length));
    for (const x of xTicks) {
      g.append(made("line", { x1: px(x), x2: px(x), y1: top, y2: height - bottom, style: "stroke: var(--grid)" }));
      g.append(made("text", { x: px(x), y: height - bottom + 18, "text-anchor": "middle", "font-size": 13 },
        log ? String(x) : x.toFixed(digits)));
    }
    for (const y of ticks(y0, y1, 5)) {
      g.append(made("line", { x1: left, x2: width - right, y1: py(y), y2: py(y), style: "stroke: var(--grid)" }));
      g.append(made("text", { x: left - 7, y: py(y) + 4, "text-anchor": "end", "font-size": 13 },
        Number((100 * y).toPrecision(4)) + "%"));
    }
    g.append(made("text", { x: width - right, y: height - 10, "text-anchor": "end", "font-size": 13 },
      "size, ← better"));
    g.append(made("text", { x: 10, y: 20, "font-size": 13 }, "singletons, ↑ better"));
    const line = (dots) => dots.map((d) => `${px(d.x)},${py(d.y)}`).join(" ");
    g.append(made("polyline", { points: line(best), fill: "none", style: "stroke: var(--highlight)", "stroke-width": 10,
      "stroke-linecap": "round", "stroke-linejoin": "round" }));
    for (const trace of traces) {
      g.append(made("polyline", { points: line(trace.dots), fill: "none", style: `stroke: ${ink(trace.dots[0].colour)}`,
        "stroke-width": 1.6, "stroke-dasharray": DASHES[trace.dash] }));
      for (const d of trace.dots) g.append(shape(d, px(d.x), py(d.y), 3.4));
    }
    for (const d of compared) g.append(shape(d, px(d.x), py(d.y), 7.5, "mark"));
    const ring = made("path", { d: SHAPES.o, fill: "none", style: "stroke: var(--ink)", "stroke-width": 0.18, visibility: "hidden" });
    g.append(ring);
    const svg = made("svg", { viewBox: `0 0 ${width} ${height}`, tabindex: 0, role: "application",
      "aria-label": "Chart of size against singletons. Arrow keys go from point to point." }, g);
    box.replaceChildren(svg, tip);
    const lines = traces.flatMap((t) => t.dots.flatMap((d, i) => along(d, t.dots[i + 1] || d, px, py)));
    nameDots(g, small ? 18 : 34, compared.map((d) => [d, px(d.x), py(d.y)]), lines, left, width - right, top, height - bottom);
    placed = every.map((d) => ({ d, x: px(d.x), y: py(d.y) })).sort((a, b) => a.x - b.x);
    const show = (i) => {
      chosen = i;
      tip.hidden = i < 0;
      ring.setAttribute("visibility", i < 0 ? "hidden" : "visible");
      if (i < 0) return;
      const { d, x, y } = placed[i];
      ring.setAttribute("transform", `translate(${x} ${y}) scale(${d.large ? 12 : 8})`);
      tip.replaceChildren(made("b", {}, d.label), `size ${d.x.toFixed(2)}`, made("br"),
        `${percent(d.y)} singletons`);
      tip.style.left = Math.max(4, Math.min(x + 14, width - tip.offsetWidth - 4)) + "px";
      tip.style.top = (y > tip.offsetHeight + 22 ? y - tip.offsetHeight - 14 : y + 16) + "px";
    };
    const nearest = (event) => {
      const at = svg.getBoundingClientRect(), x = event.clientX - at.left, y = event.clientY - at.top;
      let found = -1, least = 26;
      placed.forEach((p, i) => {
        const away = Math.hypot(p.x - x, p.y - y) - (p.d.large ? 5 : 0);
        if (away < least) [found, least] = [i, away];
      });
      show(found);
    };
    svg.addEventListener("pointermove", nearest);
    svg.addEventListener("pointerdown", nearest);
    svg.addEventListener("pointerleave", (event) => { if (event.pointerType === "mouse") show(-1); });
    svg.addEventListener("blur", () => show(-1));
    svg.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1 }[event.key];
      if (event.key === "Escape") show(-1);
      if (!step) return;
      event.preventDefault();
      show(chosen < 0 ? (step > 0 ? 0 : placed.length - 1) : (chosen + step + placed.length) % placed.length);
    });
  }

  function along(a, b, px, py) {
    const [x, y, dx, dy] = [px(a.x), py(a.y), px(b.x) - px(a.x), py(b.y) - py(a.y)];
    const steps = Math.ceil(Math.max(Math.abs(dx), Math.abs(dy)) / 6) || 1;
    return Array.from({ length: steps }, (_, i) => ({ x: x + dx * i / steps, y: y + dy * i / steps, width: 1, height: 1 }));
  }

  /* Write each name at the position around its dot where it overlaps least. */
  function nameDots(g, longest, dots, lines, left, right, top, bottom) {
    const meets = (a, b) => a.x < b.x + b.width && b.x < a.x + a.width && a.y < b.y + b.height && b.y < a.y + a.height;
    const taken = [...lines, ...dots.flatMap(([, x, y]) => Array(9).fill({ x: x - 8, y: y - 8, width: 16, height: 16 }))];
    const places = [[12, -8, "start"], [12, 16, "start"], [-12, -8, "end"], [-12, 16, "end"], [0, -14, "middle"],
      [0, 24, "middle"], [14, 5, "start"], [-14, 5, "end"], [22, -22, "start"], [22, 32, "start"], [-22, 32, "end"]];
    for (const [d, x, y] of dots) {
      const label = d.label.length > longest ? d.label.slice(0, longest - 1) + "…" : d.label;
      const text = made("text", { "font-size": 14, "font-weight": 700, style: "stroke: var(--halo)", "stroke-width": 3,
        "paint-order": "stroke" }, label);
      g.append(text);
      const put = ([dx, dy, anchor]) => {
        text.setAttribute("x", x + dx);
        text.setAttribute("y", y + dy);
        text.setAttribute("text-anchor", anchor);
        return text.getBBox();
      };
      const crowding = places.map((place) => {
        const here = put(place);
        const inside = here.x > left && here.x + here.width < right && here.y > top && here.y + here.height < bottom;
        return taken.filter((other) => meets(here, other)).length + (inside ? 0 : 1000);
      });
      const here = put(places[crowding.indexOf(Math.min(...crowding))]);
      taken.push(...Array(99).fill(here));
    }
  }

  function drawLegend() {
    const item = (dots, dash, stroke, width, title) => {
      const svg = made("svg", { width: 34, height: 14, "aria-hidden": "true" }, made("line", { x1: 2, x2: 32, y1: 7, y2: 7,
        style: `stroke: ${ink(stroke)}`, "stroke-width": width, "stroke-dasharray": DASHES[dash], "stroke-linecap": width > 5 ? "round" : "butt" }));
      if (dots) svg.append(shape(dots[0], 17, 7, 3.6));
      $("scatter-legend").append(made("li", {}, svg, title));
    };
    item(null, 0, "var(--highlight)", 8, "Pareto front");
    for (const trace of traces) item(trace.dots, trace.dash, trace.dots[0].colour, 1.6, trace.title);
    if (compared.some((dot) => dot.hollow)) {
      const svg = made("svg", { width: 34, height: 14, "aria-hidden": "true" },
        shape({ marker: "o", colour: "#111111", hollow: true }, 17, 7, 4.5));
      $("scatter-legend").append(made("li", {}, svg, "hollow: several thresholds, or never empty"));
    }
  }

  let before = 0;
  new ResizeObserver(() => {
    if (box.clientWidth === before) return;
    before = box.clientWidth;
    drawScatter();
  }).observe(box);
  drawLegend();

  /* The slider: the counts at all its levels are stored in the page. */
  function numbers(text, type) {
    return new type(Uint8Array.from(atob(text), (c) => c.charCodeAt(0)).buffer);
  }
  const curves = data.curves.map((curve) => ({
    ...curve,
    thresholds: curve.thresholds && numbers(curve.thresholds, Float64Array), covered: numbers(curve.covered, Int32Array),
    sizes: numbers(curve.sizes, Int32Array), singletons: numbers(curve.singletons, Int32Array),
    empty: numbers(curve.empty, Int32Array),
  }));
  const ranks = numbers(data.ranks, Int32Array);

  function drawLevel() {
    const step = Number($("alpha").value), at = step - data.first, rank = ranks[at], n = data.n;
    $("alpha-value").textContent = (step / 1000).toFixed(3);
    const own = curves.every((curve) => curve.thresholds) ? "" : "; a method with several thresholds computes each from its own scores";
    $("alpha-status").textContent = rank > n
      ? `Sets should contain the true class ${(1000 - step) / 10}% of the time. ${n} calibration rows are too `
        + "few for that: the threshold is infinite and every set contains all classes."
      : `Sets should contain the true class ${(1000 - step) / 10}% of the time: the threshold is number `
        + `${rank.toLocaleString("en")} of the ${n.toLocaleString("en")} calibration scores in increasing order${own}.`;
    const rows = [], bars = [];
    for (const curve of curves) {
      const m = curve.tested, full = rank > n && curve.thresholds;
      const one = full ? 0 : curve.singletons[at] / m, none = full ? 0 : curve.empty[at] / m;
      const threshold = full ? Infinity : curve.thresholds?.[at];
      const cells = [threshold === undefined ? "several" : Number.isFinite(threshold) ? threshold.toFixed(4) : "∞", percent(full ? 1 : curve.covered[at] / m),
        full ? "all" : (curve.sizes[at] / m).toFixed(2), percent(one), percent(none)];
      if (curve.label === data.take) {
        $("alpha").setAttribute("aria-valuetext", `${(step / 1000).toFixed(3)}: ${curve.label}, coverage ${cells[1]}, `
          + `size ${full ? "of all classes" : cells[2]}, ${cells[3]} singletons, ${cells[4]} empty`);
      }
      rows.push(made("tr", {}, made("th", { scope: "row" }, curve.label), ...cells.map((c) => made("td", {}, c))));
      const parts = [["one", one], ["more", 1 - one - none], ["none", none]];
      const bar = made("div", {}, ...parts.map(([kind]) => made("i", { class: kind })));
      parts.forEach(([, share], i) => { bar.children[i].style.width = 100 * share + "%"; });
      bars.push(made("div", { class: "bar" }, made("span", {}, curve.label), bar));
    }
    $("alpha-table").tBodies[0].replaceChildren(...rows);
    $("alpha-bars").replaceChildren(...bars);
  }
  $("alpha").addEventListener("input", drawLevel);
  drawLevel();

  /* Open all details for printing, and close them afterwards. */
  const folded = [];
  addEventListener("beforeprint", () => {
    for (const part of document.querySelectorAll("details:not([open])")) folded.push(part);
    for (const part of folded) part.open = true;
  });
  addEventListener("afterprint", () => { for (const part of folded.splice(0)) part.open = false; });
})();
