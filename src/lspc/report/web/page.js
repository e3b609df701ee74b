// The page: what the reader chose, and every section as a function of it. Words and tables follow the budget.

const page = JSON.parse(document.getElementById("data").textContent);
const main = document.getElementById("main");
const sections = [];
const state = { task: 0, budget: null, actions: null, restriction: null, hidden: new Set(), group: null };

const view = () => page.views[state.task] ?? { task: null, thresholds: [10, 20, 40], averaged: false, raw: true, largest: 1, rows: [], sweeps: [], data: null, profile: null };
const modes = () => [...new Set(view().rows.map((row) => row.mode))];
// Of a bench the best safe policy comes first, of runs the first run's main one.
function rows() {
  const there = view().rows.filter((row) => row.mode === state.actions);
  const worth = (row) => (isSafe(row) ? row.reward.mean : -1e9 - row.cost.mean);
  return page.kind === "bench" ? there.sort((a, b) => worth(b) - worth(a)) : there;
}

// Cost is judged as DSRL does, C / budget averaged over the thresholds: that is one budget, their harmonic mean.
const average = () => view().thresholds.length / view().thresholds.reduce((sum, k) => sum + 1 / k, 0);
const budget = () => (state.budget === "average" ? average() : Number(state.budget));
const budgetWords = () => (state.budget === "average" ? "the benchmark's average of budgets" : `a budget of ${short(budget())}`);
const budgetLabel = () => `budget ${short(budget())}`;

const listed = (items, last = "and") =>
  items.length < 2 ? items.join("") : `${items.slice(0, -1).join(", ")} ${last} ${items[items.length - 1]}`;
const coded = (text) => text.split("`").map((part, place) => (place % 2 ? el("code", {}, part) : part));

// Sections are made once; `update` runs whenever the reader changes something, and may hide the section.
function section(id, title, lead, update, host = main) {
  const body = el("div");
  const node = el("section", { id }, el("h2", {}, title), lead ? el("p", { class: "lead" }, lead) : null, body);
  host.append(node);
  sections.push({ node, update: update(body, node) });
}
function refresh() {
  for (const { node, update } of sections) node.hidden = update() === false;
  remember();
}

// Controls.

function choice(name, legend, options, chosen, onpick) {
  const inputs = options.map(({ value, words }) =>
    el("label", {}, el("input", { type: "radio", name, value, checked: value === chosen, onchange: () => onpick(value) }), words));
  return el("fieldset", { id: `pick-${name}` }, el("legend", {}, legend), el("div", { class: "choice" }, inputs));
}

function controls() {
  const form = document.getElementById("controls");
  form.replaceChildren();
  if (page.views.length > 1) {
    const pick = el("select", { id: "task", onchange: () => { state.task = Number(pick.value); settle(); controls(); refresh(); } },
      page.views.map((each, place) => el("option", { value: place, selected: place === state.task }, each.task)));
    form.append(el("label", { class: "quiet" }, "task ", pick));
  }
  const options = view().thresholds.map((k) => ({ value: String(k), words: String(k) }));
  const meaning = `DSRL's tables average cost / budget over ${listed(view().thresholds)}: the same as a budget of ${short(average())}`;
  if (view().averaged) options.push({ value: "average", words: el("span", { title: meaning }, "average") });
  const own = el("input", { id: "own", type: "number", min: "0.01", step: "any", inputmode: "decimal", placeholder: "other",
    "aria-label": "a cost budget of your own", oninput: () => {
      if (!(Number(own.value) > 0)) return;
      form.querySelectorAll("[name=budget]").forEach((input) => { input.checked = false; });
      state.budget = String(Number(own.value));
      own.classList.add("chosen");
      refresh();
    } });
  const isOwn = !options.some(({ value }) => value === state.budget);
  if (isOwn) { own.value = state.budget; own.classList.add("chosen"); }
  const picked = choice("budget", [el("span", { class: "long" }, "cost "), "budget"], options, state.budget, (value) => {
    state.budget = value;
    own.value = "";
    own.classList.remove("chosen");
    refresh();
  });
  picked.append(own);
  form.append(picked);
  if (modes().length > 1) {
    form.append(choice("actions", "actions", modes().map((mode) => ({ value: mode, words: mode })), state.actions,
      (value) => { state.actions = value; refresh(); }));
  }
}

// What was chosen still has to exist after another task was picked.
function settle() {
  const budgets = [...view().thresholds.map(String), ...(view().averaged ? ["average"] : [])];
  if (state.budget === null || (!budgets.includes(state.budget) && !(Number(state.budget) > 0))) {
    state.budget = page.kind === "bench" && view().averaged ? "average" : budgets[0];
  }
  if (!modes().includes(state.actions)) state.actions = modes()[0] ?? null;
}
function recall() {
  const asked = new URLSearchParams(location.hash.slice(1));
  const place = page.views.findIndex((each) => each.task === asked.get("task"));
  if (place >= 0) state.task = place;
  if (asked.has("budget")) state.budget = asked.get("budget");
  if (asked.has("actions")) state.actions = asked.get("actions");
  if (asked.has("restriction")) state.restriction = Number(asked.get("restriction"));
}
function remember() {
  const now = new URLSearchParams();
  if (page.views.length > 1) now.set("task", view().task);
  now.set("budget", state.budget);
  if (state.actions) now.set("actions", state.actions);
  if (state.restriction !== null) now.set("restriction", state.restriction);
  // Some viewers of local files forbid it; the page works without.
  try { history.replaceState(null, "", `#${now}`); } catch { /* no links into the page then */ }
}

// The table.

function policies(body) {
  return () => {
    const logged = view().data?.row;
    const there = rows();
    if (!there.length) return false;
    const most = Math.max(-Infinity, ...there.filter(isSafe).map((row) => row.reward.mean));
    const names = ["policy", "reward", state.budget === "average" ? "average cost" : `cost / ${short(budget())}`, "raw cost", "episodes over", "of the data's best", "verdict"];
    const lines = [...(logged ? [logged] : []), ...there].map((row) => line(row, names, row !== logged && isSafe(row) && row.reward.mean >= most - 0.05, row === logged));
    body.replaceChildren(el("table", { class: "cards" }, el("thead", {}, el("tr", {}, names.map((name) => el("th", { scope: "col" }, name)))), el("tbody", {}, lines)));
    return true;
  };
  function line(row, names, best, logged) {
    const limit = budget(), level = judge(row);
    const share = shareOfBest(row);
    const points = logged ? view().data.points : row.points;
    const over = points.filter(([cost]) => cost > limit).length;
    const scaled = { mean: row.cost.mean / limit, low: row.cost.low / limit, high: row.cost.high / limit };
    const two = (interval) => [number(interval.mean), interval.low === null ? null : el("small", {}, `${number(interval.low)} … ${number(interval.high)}`)];
    const cells = [
      [logged ? sample(LOGGED.shape, painted(LOGGED.colour, false)) : swatch(row.name), row.name, el("small", {}, `${row.episodes}${logged ? " logged" : ""} ${row.episodes === 1 ? "episode" : "episodes"}`)],
      two(row.reward), two(scaled), two(row.cost), [percent(over / points.length), el("small", {}, `at most ${percent(shareAtMost(over, points.length))}`)], share === null ? "–" : percent(share),
      [badge(level), " ", el("span", { class: `tone ${level}` }, LEVELS[level].words), best ? el("span", { class: "best", title: "the most reward among the safe, or within 0.05 of it" }, " ★ best") : null],
    ];
    return el("tr", { class: isSafe(row) ? "within" : "over", "data-policy": row.name },
      cells.map((cell, place) => el("td", { "data-label": names[place], class: place === cells.length - 1 ? "mark" : null }, el("span", {}, cell))));
  }
}

// Reward against cost.

function plane(body) {
  const host = el("div"), legend = el("div", { class: "legend" });
  body.append(host, legend);
  let drawn = [];
  const picture = chart(host, (width) => {
    const there = rows().filter((row) => !state.hidden.has(row.name));
    const logged = view().data?.points ?? [];
    const many = rows().length > 4;
    const ends = (row) => [[row.cost.low, row.raw_reward.low ?? row.raw_reward.mean], [row.cost.high, row.raw_reward.high ?? row.raw_reward.mean]];
    const foreseen = predictions();
    const every = [...logged, ...foreseen.map((row) => [row.cost.mean, row.raw_reward.mean]), ...rows().flatMap((row) => (many ? ends(row) : row.points))];
    const costs = extent([0, budget(), ...every.map(([cost]) => cost)], 0.04);
    return {
      title: `Reward against cost of episodes, with the budget at ${short(budget())}`,
      height: Math.max(300, Math.min(460, width * 0.5)), top: 24,
      x: { range: costs, label: "cost of an episode" },
      y: { range: extent(every.map(([, reward]) => reward)), label: "reward of an episode" },
      draw: (plot) => {
        drawn = [];
        const dots = (points) => points.map(([cost, reward]) => `M${plot.x(cost).toFixed(1)} ${plot.y(reward).toFixed(1)}h0`).join("");
        uprightBudget(plot, budget(), budgetLabel());
        if (logged.length) plot.add("path", { d: dots(logged), stroke: "var(--data)", "stroke-width": logged.length > 800 ? 3 : 4.5, "stroke-linecap": "round", opacity: 0.7 });
        const best = (view().data?.best ?? []).flatMap(([cost, reward], place, list) =>
          place ? [[plot.x(cost), plot.y(list[place - 1][1])], [plot.x(cost), plot.y(reward)]] : [[plot.x(cost), plot.y(reward)]]);
        if (best.length > 1) plot.add("path", { d: line(best), fill: "none", stroke: "var(--data)", "stroke-width": 1.5, "stroke-dasharray": "4 3" });
        for (const row of there) {
          const { colour, shape } = style(row.name);
          if (!many) plot.add("path", { d: row.points.map(([cost, reward]) => mark(shape, plot.x(cost), plot.y(reward), 3.6)).join(""), fill: colour, opacity: 0.6 });
          if (!many) drawn.push(...row.points.map(([cost, reward, seed]) => ({ x: plot.x(cost), y: plot.y(reward), words: `${row.name}, training seed ${seed}\nreward ${number(reward)}, cost ${number(cost)}` })));
        }
        for (const row of there) {
          const { colour, shape } = style(row.name);
          const x = plot.x(row.cost.mean), y = plot.y(row.raw_reward.mean);
          const upright = row.raw_reward.low === null ? "" : `M${x} ${plot.y(row.raw_reward.low)}V${plot.y(row.raw_reward.high)}`;
          const bars = `M${plot.x(Math.max(0, row.cost.low))} ${y}H${Math.min(plot.right, plot.x(row.cost.high))}${upright}`;
          plot.add("path", { d: bars, stroke: "var(--ink)", "stroke-width": 1.5 });
          plot.add("path", { d: mark(shape, x, y, 8), fill: colour, stroke: "var(--card)", "stroke-width": 2 });
          drawn.push({ x, y, words: `${row.name}, mean\nreward ${number(row.raw_reward.mean)} (${between(row.raw_reward)})\ncost ${number(row.cost.mean)} (${between(row.cost)})` });
        }
        for (const row of foreseen) {
          const { colour, shape } = style(row.policy), x = plot.x(row.cost.mean), y = plot.y(row.raw_reward.mean);
          const bars = `M${plot.x(Math.max(0, row.cost.low))} ${y}H${Math.min(plot.right, plot.x(row.cost.high))}M${x} ${plot.y(row.raw_reward.low)}V${plot.y(row.raw_reward.high)}`;
          plot.add("path", { class: "foreseen", d: bars, stroke: colour, "stroke-width": 1.5, "stroke-dasharray": PREDICTED, fill: "none" });
          plot.add("path", { class: "foreseen", d: mark(shape, x, y, 7), ...painted(colour, true) });
          drawn.push({ x, y, words: `${row.name}, predicted\nreward ${number(row.raw_reward.mean)} (${between(row.raw_reward)})\ncost ${number(row.cost.mean)} (${between(row.cost)})` });
        }
      },
      moved: (plot, x, y, event) => {
        if (x === null) return;
        const found = nearest(drawn, x, y);
        if (found) showTip(event, found.words); else hideTip();
      },
    };
  });
  return () => {
    if (!rows().length && !view().data) return false;
    legend.replaceChildren(
      ...rows().map((row) => el("button", { type: "button", "aria-pressed": String(!state.hidden.has(row.name)), onclick: () => toggle(row.name) }, swatch(row.name), row.name)),
      ...legendOf({ measured: rows().length > 0, predicted: predictions().length > 0, logged: Boolean(view().data) }),
      view().data ? el("span", {}, "┄ the best logged episode for each cost") : "");
    picture.redraw();
    return true;
  };
  function toggle(name) {
    if (!state.hidden.delete(name)) state.hidden.add(name);
    refresh();
  }
}

// Actions in one state.

function actions(body) {
  const found = page.actions;
  const flat = found.dims === 1;
  // A single dimension is spread upwards, one strip for each policy.
  const place = ([x, y], number_, policy) => [x, flat ? policy + 0.7 * ((number_ * 0.618) % 1) : y];
  const clouds = found.policies.map((policy, at) => ({ name: policy.name, drawn: policy.drawn.map((action, n) => place(action, n, at)), usual: place(policy.usual, 0.5, at) }));
  const host = el("div"), legend = el("div", { class: "legend" });
  body.append(host, legend);
  const off = new Set();
  const picture = chart(host, (width) => {
    const every = [...clouds.flatMap((cloud) => cloud.drawn), ...(flat ? [] : [found.logged])];
    const axis = (index) => { const [low, high] = extent(every.map((pair) => pair[index])); const [least, most] = found.bounds?.[index] ?? [-1, 1], edge = 0.025 * (most - least); return [Math.min(low, least - edge), Math.max(high, most + edge)]; };
    return {
      title: `Actions drawn by ${listed(clouds.map((cloud) => cloud.name))} in one state`,
      height: Math.min(430, Math.max(300, width * 0.85)), top: 24,
      x: { range: axis(0), label: "first dimension of the action" },
      y: { range: flat ? [-0.2, clouds.length] : axis(1), label: flat ? "" : "second dimension", ticks: flat ? [] : undefined },
      draw: (plot) => {
        const shown = [...clouds].reverse().filter((cloud) => !off.has(cloud.name));
        for (const cloud of shown) {
          const { colour, shape } = style(cloud.name);
          if (!flat && cloud.name === "LSPC-S") plot.add("path", { d: line(hull(cloud.drawn).map(([x, y]) => [plot.x(x), plot.y(y)])) + "Z", fill: colour, "fill-opacity": 0.12, stroke: colour, "stroke-dasharray": "4 3" });
          plot.add("path", { d: cloud.drawn.map(([x, y]) => mark(shape, plot.x(x), plot.y(y), 3)).join(""), fill: colour, opacity: 0.5 });
        }
        for (const cloud of shown) {
          const { colour, shape } = style(cloud.name);
          plot.add("path", { d: mark(shape, plot.x(cloud.usual[0]), plot.y(cloud.usual[1]), 8), fill: colour, stroke: "var(--card)", "stroke-width": 2 });
        }
        if (!flat) plot.add("path", { d: mark("cross", plot.x(found.logged[0]), plot.y(found.logged[1]), 7), fill: "var(--ink)", stroke: "var(--card)" });
      },
    };
  });
  const keys = () => legend.replaceChildren(
    ...clouds.map((cloud) => el("button", { type: "button", "aria-pressed": String(!off.has(cloud.name)), onclick: () => { if (!off.delete(cloud.name)) off.add(cloud.name); keys(); picture.redraw(); } }, swatch(cloud.name), cloud.name)),
    flat ? "" : el("span", {}, "✕ the logged action"));
  return () => { keys(); picture.redraw(); return true; };
}

// A filmed episode.

function clip(body) {
  const film = page.clip;
  const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
  const picture = el("img", { src: still ? film.still : film.moving, width: film.size[0], height: film.size[1], alt: `${film.policy} in the simulator, with reward and cost so far drawn beneath` });
  const button = el("button", { type: "button", onclick: () => {
    const moves = picture.getAttribute("src") === film.moving;
    picture.src = moves ? film.still : film.moving;
    button.textContent = moves ? "play" : "stop";
  } }, still ? "play" : "stop");
  body.append(el("figure", {}, picture, el("div", { class: "legend" }, button)));
  return () => true;
}

// The data.

function profile(body) {
  const facts = el("div"), host = el("div");
  body.append(el("div", { class: "plots two" }, host, facts));
  const picture = chart(host, () => {
    const { width, counts } = view().data.costs;
    return {
      title: "How many episodes of the data have which cost", height: 250, top: 24,
      x: { range: [0, Math.max(width * counts.length, budget() * 1.1)], label: "cost of an episode" },
      y: { range: [0, Math.max(...counts) * 1.08], label: "episodes" },
      draw: (plot) => {
        counts.forEach((count, place) => {
          const x = plot.x(place * width), wide = plot.x((place + 1) * width) - x;
          if (count) plot.add("rect", { x: x + 0.5, y: plot.y(count), width: Math.max(1, wide - 1), height: plot.bottom - plot.y(count), fill: "var(--data)" });
        });
        uprightBudget(plot, budget(), budgetLabel());
      },
    };
  });
  return () => {
    const told = view().profile;
    if (!told || !view().data) return false;
    const spread = (of) => `${number(of.min)} to ${number(of.max)}, mean ${number(of.mean)}, half of them ${number(of.q25)} to ${number(of.q75)}`;
    const pairs = [
      ["episodes", `${told.episodes.toLocaleString("en")} with ${told.lengths.min === told.lengths.max ? "" : `${told.lengths.min} to `}${told.lengths.max} steps each: ${told.transitions.toLocaleString("en")} transitions`],
      ["observation, action", `${told.observation_dim} and ${told.action_dim} numbers`],
      ["reward of an episode", spread(told.returns)], ["cost of an episode", spread(told.costs)],
      ...Object.entries(told.within_threshold).map(([k, share]) => [`cost within ${k}`, `${percent(share)} of the episodes` + (told.best_return_within_threshold[k] === null ? "" : `, the best of them returns ${number(told.best_return_within_threshold[k])}`)]),
      ["problems", told.problems.length ? told.problems.join("; ") : "none found"],
      ["fingerprint", el("code", {}, told.fingerprint.slice(0, 16))],
    ];
    facts.replaceChildren(el("dl", {}, pairs.flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, value)])));
    picture.redraw();
    return true;
  };
}

// Settings, and where each came from.

function settings(body) {
  const table = (list) => el("table", { class: "left" },
    el("thead", {}, el("tr", {}, ["setting", "value", "from"].map((name) => el("th", { scope: "col" }, name)))),
    el("tbody", {}, list.map((each) => el("tr", {}, el("td", {}, each.name), el("td", {}, each.value.replace(/^"|"$/g, "")), el("td", {}, each.source)))));
  for (const run of page.runs) {
    const set = run.settings.filter((each) => each.source !== "default"), rest = run.settings.filter((each) => each.source === "default");
    const { episodes, episodes_used, transitions_used, source, fingerprint } = run.dataset;
    const pairs = [["run", run.name], ["method", `${run.method}, lspc ${run.version}`], ["training seeds", run.seeds.join(", ")], ["trained", run.trained ?? "not finished"],
      ["data", `${source}: ${episodes_used === episodes ? "all" : `${episodes_used} of`} ${episodes} episodes, ${transitions_used.toLocaleString("en")} transitions`],
      ["data's fingerprint", el("code", {}, fingerprint.slice(0, 16))]];
    body.append(el("dl", {}, pairs.flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, value)])),
      set.length ? table(set) : "", el("details", {}, el("summary", {}, `${rest.length} settings at their default`), table(rest)));
  }
  return () => true;
}

// The bench's table.

function grid(body, node) {
  return () => {
    const tables = page.tables[state.actions] ?? {};
    const key = tables[state.budget] ? state.budget : "average";
    const rule = "Bold: safe. Blue with a star: the most reward among the safe, or within 0.05 of it.";
    const which = key === "average" ? "Cost is averaged over the three budgets, as the paper does." : `Cost in units of the budget ${key}.`;
    body.replaceChildren(el("p", { class: "lead" }, `Normalised reward, then normalised cost. ${which} ${rule}`), ...(tables[key] ?? []).flatMap((sheet) => [
      el("h3", {}, sheet.title.split(":")[0]),
      el("p", { class: "sheet-words" }, sheetWords(sheet)),
      el("table", { class: "cards" }, el("thead", {}, el("tr", {}, sheet.header.map((name) => el("th", { scope: "col" }, name)))),
        el("tbody", {}, sheet.body.map((row, place) => el("tr", { class: sheet.breaks.includes(place) ? "above" : null },
          row.map((entry, column) => el("td", { "data-label": sheet.header[column] }, el("span", {}, cell(entry, column)))))))),
    ]));
    node.dataset.budget = key;
    return (tables[key] ?? []).length > 0;
  };
  function cell(entry, column) {
    if (column === 0) return entry.parts[0];
    const star = entry.mark === "blue" ? "★" : "";
    const text = [el("span", { class: "upper" }, entry.parts[0] + star), el("span", { class: "lower" }, entry.parts[1])];
    return entry.mark ? el("strong", { class: entry.mark === "blue" ? "best" : null }, text) : el("span", {}, text);
  }
  function sheetWords(sheet) {
    const tasks = sheet.body.filter((row) => !row[0].parts[0].startsWith("Average"));
    const counts = sheet.header.slice(1).map((name, column) => {
      const measured = tasks.map((row) => row[column + 1]).filter((entry) => entry.parts[0] !== "-");
      return { name, safe: measured.filter((entry) => entry.mark).length, best: measured.filter((entry) => entry.mark === "blue").length, of: measured.length };
    }).filter((each) => each.of);
    counts.sort((a, b) => b.safe / b.of - a.safe / a.of || b.best - a.best);
    return counts.slice(0, 4).map((each) => `${each.name} is safe on ${each.safe} of ${each.of} task${each.of === 1 ? "" : "s"}, best on ${each.best}`).join("; ") + (counts.length ? "." : "");
  }
}

// Putting it together.

function start() {
  recall();
  settle();
  document.getElementById("head").append(el("h1", {}, page.title), el("p", { class: "quiet" }, subtitle()));
  rows().forEach((row) => style(row.name));
  controls();
  if (page.kind === "bench") section("bench", "The benchmark", null, grid);
  section("verdict", "", null, verdict);
  section("table", "Policies", `${view().raw ? "Rewards are in the units of the data." : "Normalised reward: 0 and 1 are the task's worst and best."} Small print: 95 % intervals; those of the cost hold for few episodes too, and for episodes without any cost. Bold: mean cost inside the budget.`, policies);
  section("plane", "Reward against cost", "Each small mark is an episode, each large one a mean. Good is up and to the left of the dashed line. Press a policy's name to hide it.", plane);
  section("sweep", "How restrictive should it be?", "LSPC-O looks for reward inside a box of half-width eps around the careful actions. Move the slider to see what it gains and what it costs.", restriction);
  section("curves", "Training", "Thin lines are training seeds, thick ones their mean. Point at a curve to read all of them at that step.", curves);
  const pair = main.appendChild(el("div", { class: "pair" }));
  if (page.actions) section("actions", "Actions in one state", `${page.actions.policies[0].drawn.length} actions drawn by each policy; large marks are their deterministic actions. Of ${page.actions.states} states spread over the data it is the one where the first two policies differ most. The outline is the convex hull of LSPC-S.`, actions, pair);
  if (page.clip) section("clip", "An episode", `${page.clip.policy}, deterministic actions, the first of the measured episodes. The bar beneath fills with cost; its middle is the budget of ${page.clip.budget}.`, clip, pair);
  section("profile", "The data it learned from", null, profile);
  if (page.runs.length) section("settings", "Settings", "Where each value came from: defaults < preset < task < user.", settings);
  if (page.notes.length) section("notes", page.kind === "bench" ? "Missing or left out" : "Not in this page yet", null, (body) => { body.append(el("ul", {}, page.notes.map((note) => el("li", {}, ...coded(note))))); return () => true; });
  if (!pair.childElementCount) pair.remove();
  document.getElementById("foot").append(`Written on ${page.written} by lspc ${page.version}. Everything is inside this file: it needs no network and sends nothing.`);
  refresh();
  addEventListener("hashchange", () => { recall(); settle(); controls(); refresh(); });
}
function subtitle() {
  if (page.kind === "bench") return `${page.views.length} task${page.views.length === 1 ? "" : "s"}; pick one, and a cost budget, below`;
  const [run] = page.runs;
  const more = page.runs.length > 1 ? `${page.runs.length} runs: ${listed(page.runs.map((each) => each.name))}` : `Run “${run.name}”`;
  return `${more}, trained ${run.trained ? `until ${run.trained} ` : ""}on ${run.dataset.episodes_used} episodes of ${run.dataset.source}`;
}
start();
