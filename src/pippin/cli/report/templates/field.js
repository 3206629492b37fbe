"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const $ = (id) => document.getElementById(id);
  const STEP = { windows: 24, photographs: 6 };
  const number = (n) => n.toLocaleString("en");
  const many = (n, word) => `${number(n)} ${word}${n === 1 ? "" : "s"}`;

  function made(tag, attributes, ...children) {
    const node = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes || {})) node.setAttribute(name, value);
    node.append(...children);
    return node;
  }

  const windows = data.windows.map(([photo, row, column, members, action, certificate, credibility, novelty, careful]) =>
    ({ photo, row, column, members, action, certificate, credibility, novelty, careful }));
  const said = (one) => one.action === null
    ? (one.members.length ? data.classes[one.members[0]] : data.marks[3]) : data.actions[one.action];
  const hue = (one) => one.action === null
    ? (one.members.length ? data.colours[one.members[0]] : data.grey) : data.colours[one.action];
  const mark = (n) => n === 0 ? "none-at-all" : n === 1 ? "" : n <= data.few ? "few" : "many";
  const place = (one) => data.window === null ? "" : `row ${one.row}, column ${one.column}`;

  function swatch(one) {
    const node = made("i", { class: `swatch ${mark(one.members.length)}` });
    node.style.setProperty("--hue", hue(one));
    return node;
  }

  /* The window, cut out of the photograph without drawing, with a frame in the color of its action. */
  function crop(one) {
    const photo = data.photos[one.photo];
    const box = made("button", { type: "button", class: "crop framed",
      "aria-label": `${said(one)}: show it in ${photo.name}${place(one) && `, ${place(one)}`}` });
    const side = data.window;
    box.style.aspectRatio = side === null ? `${photo.width} / ${photo.height}` : "1";
    box.style.setProperty("--hue", hue(one));
    if (photo.clean === null) return box;
    const image = made("img", { src: photo.clean, loading: "lazy", alt: "" });
    box.append(image);
    image.style.width = side === null ? "100%" : `${100 * photo.width / side}%`;
    image.style.left = `${-100 * one.column}%`;
    image.style.top = `${-100 * one.row}%`;
    return box;
  }

  function members(one) {
    const names = one.members.slice(0, 6).map((k) => data.classes[k]), rest = one.members.length - names.length;
    return names.length ? names.join(", ") + (rest ? ` and ${rest} more` : "") : data.marks[3];
  }
  const credible = (one) => `credibility ${one.credibility.toPrecision(2)}`
    + (one.action === null ? "" : one.certificate === null ? " · nothing certified"
      : ` · utility at least ${Number(one.certificate.toPrecision(3))}`)
    + (one.novelty === null ? "" : ` · novelty p = ${one.novelty.toPrecision(2)}`)
    + (one.careful === "alarm" ? " · careful after an alarm" : one.careful === "novel" ? " · careful since novel" : "");

  function card(one, i) {
    const box = crop(one);
    box.addEventListener("click", () => view(shown, i));
    return made("li", {}, box, made("p", {}, made("b", {}, swatch(one), " ", said(one)),
      one.action === null && one.members.length === 1 ? "" : members(one), made("small", {}, credible(one)),
      made("small", {}, [data.photos[one.photo].name, place(one)].filter(Boolean).join(" · "))));
  }

  function photograph({ photo, mine }) {
    const { src, name, width, height } = data.photos[photo];
    const box = made("button", { type: "button", class: "crop", "aria-label": `Show ${name}` });
    if (src !== null) {
      box.append(made("img", { src, loading: "lazy", alt: "" }));
      box.firstChild.style.width = "100%";
    }
    box.style.aspectRatio = `${width} / ${height}`;
    box.addEventListener("click", () => view(mine, -1, photo));
    return made("li", {}, box, made("p", {}, made("b", {}, name),
      `${number(mine.length)} of ${many(data.photos[photo].windows, "window")} shown`));
  }

  /* Lists that grow on demand, so that the page stays fast with thousands of windows. */
  function growing(name, make) {
    let items = [], done = 0;
    const list = $(name), button = $(`more-${name}`);
    const more = (from) => {
      const next = items.slice(done, done + STEP[name]).map((item, i) => make(item, done + i));
      list.append(...next);
      done += next.length;
      const rest = items.length - done;
      button.hidden = rest === 0;
      button.textContent = `Show ${number(Math.min(rest, STEP[name]))} more of ${number(rest)}`;
      if (from && next.length) next[0].querySelector("button").focus();
    };
    button.addEventListener("click", () => more(true));
    return (all) => {
      [items, done] = [all, 0];
      list.replaceChildren();
      more(false);
    };
  }
  const showWindows = growing("windows", card), showPhotographs = growing("photographs", photograph);

  let shown = windows;
  const chosen = (name) => { const select = $(name); return select && select.value !== "" ? Number(select.value) : null; };
  function filter() {
    const [action, member, size, photo] = ["action", "class", "size", "photo"].map((name) => chosen(`by-${name}`));
    shown = windows.filter((one) => (action === null || one.action === action)
      && (member === null || one.members.includes(member)) && (size === null || one.members.length === size)
      && (photo === null || one.photo === photo));
    const of = new Map();
    for (const one of shown) {
      if (!of.has(one.photo)) of.set(one.photo, []);
      of.get(one.photo).push(one);
    }
    $("status").textContent = shown.length === windows.length ? `All ${many(windows.length, "window")}`
      : shown.length ? `${number(shown.length)} of ${many(windows.length, "window")}`
        : "No window matches: choose another action, class, size or photograph.";
    showWindows(shown);
    showPhotographs([...of.keys()].sort((a, b) => a - b).map((key) => ({ photo: key, mine: of.get(key) })));
  }
  $("filters").addEventListener("change", filter);
  $("filters").addEventListener("reset", () => setTimeout(filter));
  $("filters").addEventListener("submit", (event) => event.preventDefault());

  /* The enlarged photograph, with the selected window outlined. */
  const viewer = $("viewer"), whole = $("whole"), outline = $("outline");
  let turned = [], at = -1;
  function view(list, i, photo = list[i].photo) {
    [turned, at] = [list, i];
    const one = list[i], { src, name, width, height } = data.photos[photo];
    whole.parentNode.hidden = src === null;
    if (src !== null && whole.getAttribute("src") !== src) whole.src = src;
    whole.alt = `${name} with its windows drawn`;
    $("viewer-name").textContent = name;
    outline.hidden = !one || data.window === null;
    if (!outline.hidden) {
      const share = (windows) => `${windows * data.window / width * 100}%`;
      Object.assign(outline.style, { left: share(one.column), marginTop: share(one.row), width: share(1) });
    }
    $("viewer-status").replaceChildren(...(one ? [swatch(one), ` ${said(one)}: ${members(one)}`,
      made("small", {}, [place(one), credible(one), `${number(i + 1)} of ${number(list.length)}`].filter(Boolean).join(" · "))]
      : [`${width} × ${height} pixels, ${many(data.photos[photo].windows, "window")}`,
        made("small", {}, list.length ? "“next” shows its windows, the most uncertain first" : "")]));
    $("before").disabled = i <= 0;
    $("after").disabled = i + 1 >= list.length;
    if (!viewer.open) viewer.showModal();
  }
  const turn = (step) => { if (turned[at + step]) view(turned, at + step); };
  $("before").addEventListener("click", () => turn(-1));
  $("after").addEventListener("click", () => turn(1));
  $("close").addEventListener("click", () => viewer.close());
  viewer.addEventListener("click", (event) => { if (event.target === viewer) viewer.close(); });
  viewer.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    turn(step);
  });

  filter();
})();
