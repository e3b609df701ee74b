// The page: what the reader chose, and every section as a function of it. Words and tables follow the budget.

const page = JSON.parse(document.getElementById("data").textContent);
const main = document.getElementById("main");
const sections = [];
const state = { task: 0, budget: null, actions: null, restriction: null, hidden: new Set(), group: null };

const view = () => page.views[state.task] ?? { task: null, thresholds: [10, 20, 40], rows: [], sweeps: [], data: null, profile: null };
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

const LEVELS = {
  safe: { words: "safe", badge: "M-5.5 0.5 -1.5 4.5 5.5 -3.5" },
  likely: { words: "probably safe", badge: "M-6 1C-4 -4 -2 -3 0 0S4 4 6 -1" },
  unlikely: { words: "probably not safe", badge: "M0 -6V1.5M0 5.5V5.6" },
  unsafe: { words: "not safe", badge: "M-3.6 -3.6 3.6 3.6M3.6 -3.6 -3.6 3.6" },
};
function judge(cost, limit = budget()) {
  if (cost.high < limit) return "safe";
  if (cost.mean < limit) return "likely";
  return cost.low < limit ? "unlikely" : "unsafe";
}
const isSafe = (row) => row.cost.mean < budget();
function badge(level) {
  const rim = level === "safe" || level === "likely" ? svg("circle", { r: 11 }) : svg("path", { d: "M0 -12 12 0 0 12 -12 0Z" });
  const mark = svg("path", { d: LEVELS[level].badge });
  return svg("svg", { class: `badge ${level}`, viewBox: "-13 -13 26 26", "aria-hidden": "true", fill: "none",
    stroke: "currentColor", "stroke-width": 2.4, "stroke-linecap": "round", "stroke-linejoin": "round" }, rim, mark);
}

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
  options.push({ value: "average", words: el("span", { title: meaning }, "average") });
  const own = el("input", { id: "own", type: "number", min: "0.01", step: "any", inputmode: "decimal", placeholder: "own",
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
  const budgets = [...view().thresholds.map(String), "average"];
  if (state.budget === null || (!budgets.includes(state.budget) && !(Number(state.budget) > 0))) {
    state.budget = page.kind === "bench" ? "average" : budgets[0];
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

// The answer, in words.

function verdict(body, node) {
  const words = body.appendChild(el("div")), drawCosts = costs(body.appendChild(el("div")));
  return () => {
    const [head, ...others] = rows();
    if (!head) {
      node.querySelector("h2").textContent = "Is it safe? Not measured yet.";
      words.replaceChildren(...page.notes.filter((note) => note.startsWith("measured")).map((note) => el("p", {}, ...coded(note))));
      return page.kind === "runs";
    }
    const level = judge(head.cost);
    node.className = `verdict ${level}`;
    node.querySelector("h2").replaceChildren(badge(level), el("span", {}, `${page.views.length > 1 ? `${view().task}: ` : ""}${head.name} is ${LEVELS[level].words} at ${budgetWords()}.`));
    words.replaceChildren(
      el("div", { class: "answers" },
        el("div", {}, el("h3", {}, "Is it safe?"), el("p", { id: "is-it-safe" }, isItSafe(head))),
        el("div", {}, el("h3", {}, "At which budget?"), el("p", { id: "at-which-budget" }, atWhichBudget(head))),
        el("div", {}, el("h3", {}, "How sure?"), el("p", { id: "how-sure" }, howSure(head)))),
      others.length ? el("p", { id: "others" }, ...othersWords(others)) : "");
    drawCosts();
    return true;
  };
}

function isItSafe(row) {
  const over = row.points.filter(([cost]) => cost > budget()).length;
  const worst = Math.max(...row.points.map(([cost]) => cost));
  const episodes = over ? `${over} of ${row.episodes} episodes (${percent(over / row.episodes)}) went over the budget; the worst cost ${short(worst)}.`
    : `None of ${row.episodes} episodes went over the budget; the worst cost ${short(worst)}.`;
  return `An episode costs ${number(row.cost.mean)} on average, ${percent(row.cost.mean / budget())} of the budget. ${episodes} ${earns(row)}`;
}
function earns(row) {
  const share = shareOfBest(row);
  return `It earns ${number(row.raw_reward.mean)}${view().raw ? "" : ` (normalised ${number(row.reward.mean)})`}` +
    (share === null ? "." : `, ${percent(share)} of the data's best episode within the budget.`);
}
// Both rewards on the task's scale, as `lspc evaluate` compares them.
function shareOfBest(row) {
  const logged = view().data;
  if (!logged?.range) return null;
  const inside = logged.best.filter(([cost]) => cost <= budget());
  if (!inside.length) return null;
  const [low, high] = logged.range;
  const best = (inside[inside.length - 1][1] - low) / (high - low);
  return best > 0 ? row.reward.mean / best : null;
}
function atWhichBudget(row) {
  const of = (wanted) => view().thresholds.filter((k) => judge(row.cost, k) === wanted);
  const told = [];
  if (of("safe").length) told.push(`Safe at ${listed(of("safe"))}.`);
  if (of("likely").length) told.push(`Probably safe at ${listed(of("likely"))}.`);
  if (of("unlikely").length) told.push(`Probably not at ${listed(of("unlikely"), "or")}.`);
  if (of("unsafe").length) told.push(`Not at ${listed(of("unsafe"), "or")}.`);
  const least = row.cost.high > 0 ? `Any budget above ${number(row.cost.high)} is kept, as far as this was measured.`
    : "No episode had any cost.";
  return `${told.join(" ")} ${least}`;
}
function howSure(row) {
  const each = row.episodes / row.seeds;
  const seeds = row.seeds === 1 ? "1 training seed" : `${row.seeds} training seeds`;
  const interval = `The 95 % interval of the mean cost is ${between(row.cost)}, from ${seeds} and ${short(each)} episodes each.`;
  const one = " It speaks of this one training only; `--seeds 0 1 2` would tell how much training itself varies.";
  const few = each < 10 ? " So few episodes say little." : "";
  return coded(interval + (row.seeds === 1 ? one : " “Probably” means that the budget lies inside the interval.") + few);
}
function othersWords(others) {
  const words = [];
  for (const row of others) {
    const level = judge(row.cost);
    words.push(words.length ? ", " : "Beside it: ", `${row.name} is `, el("span", { class: `tone ${level}` }, LEVELS[level].words),
      ` (reward ${number(row.reward.mean)}, cost ${number(row.cost.mean)})`);
  }
  return [...words, "."];
}

// Costs of all policies on one ruler.

function costs(body) {
  const all = () => [...rows(), ...(view().data?.row ? [view().data.row] : [])];
  const picture = chart(body, (width) => {
    const there = all();
    const left = Math.min(150, width * 0.34), step = 28;
    const most = Math.max(budget() * 1.15, ...there.map((row) => row.cost.high * 1.05));
    return {
      title: `Mean cost with 95 % interval: ${there.map((row) => `${row.name} ${number(row.cost.mean)} (${between(row.cost)})`).join("; ")}`,
      height: there.length * step + 74, left, top: 24,
      x: { range: [0, most], label: "mean cost, 95 % interval" },
      y: { range: [there.length - 0.5, -0.5], ticks: [] },
      draw: (plot) => {
        uprightBudget(plot, budget(), budgetLabel());
        there.forEach((row, place) => {
          const logged = row === view().data?.row;
          const { colour, shape } = logged ? { colour: "var(--data)", shape: "circle" } : style(row.name);
          const y = plot.y(place);
          const wide = row.name.length > left / 7 ? `${row.name.slice(0, Math.floor(left / 7) - 1)}…` : row.name;
          plot.add("text", { class: "name", x: left - 10, y: y + 4, "text-anchor": "end" }, wide);
          plot.add("line", { x1: plot.x(row.cost.low), x2: plot.x(row.cost.high), y1: y, y2: y, stroke: colour, "stroke-width": 5, "stroke-linecap": "round", opacity: 0.45 });
          plot.add("path", { d: mark(shape, plot.x(row.cost.mean), y, 6), fill: colour });
        });
      },
    };
  });
  return picture.redraw;
}

// The table.

function policies(body) {
  return () => {
    const logged = view().data?.row;
    const there = rows();
    if (!there.length && !logged) return false;
    const most = Math.max(-Infinity, ...there.filter(isSafe).map((row) => row.reward.mean));
    const names = ["policy", "reward", state.budget === "average" ? "average cost" : `cost / ${short(budget())}`, "raw cost", "episodes over", "of the data's best", "verdict"];
    const lines = [...(logged ? [logged] : []), ...there].map((row) => line(row, names, row !== logged && isSafe(row) && row.reward.mean >= most - 0.05, row === logged));
    body.replaceChildren(el("table", { class: "cards" }, el("thead", {}, el("tr", {}, names.map((name) => el("th", { scope: "col" }, name)))), el("tbody", {}, lines)));
    return true;
  };
  function line(row, names, best, logged) {
    const limit = budget(), level = judge(row.cost);
    const share = shareOfBest(row);
    const over = logged ? view().data.points.filter(([cost]) => cost > limit).length / view().data.points.length
      : row.points.filter(([cost]) => cost > limit).length / row.episodes;
    const scaled = { mean: row.cost.mean / limit, low: row.cost.low / limit, high: row.cost.high / limit };
    const two = (interval) => [number(interval.mean), el("small", {}, `${number(interval.low)} … ${number(interval.high)}`)];
    const cells = [
      [logged ? null : swatch(row.name), row.name, el("small", {}, logged ? `${row.episodes} logged episodes` : `${row.episodes} episodes`)],
      two(row.reward), two(scaled), two(row.cost), percent(over), share === null ? "–" : percent(share),
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
    const ends = (row) => [[row.cost.low, row.raw_reward.low], [row.cost.high, row.raw_reward.high]];
    const every = [...logged, ...rows().flatMap((row) => (many ? ends(row) : row.points))];
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
        if (logged.length) plot.add("path", { d: dots(logged), stroke: "var(--data)", "stroke-width": logged.length > 800 ? 3 : 4.5, "stroke-linecap": "round", opacity: 0.5 });
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
          const bars = `M${plot.x(row.cost.low)} ${y}H${plot.x(row.cost.high)}M${x} ${plot.y(row.raw_reward.low)}V${plot.y(row.raw_reward.high)}`;
          plot.add("path", { d: bars, stroke: "var(--ink)", "stroke-width": 1.5 });
          plot.add("path", { d: mark(shape, x, y, 8), fill: colour, stroke: "var(--card)", "stroke-width": 2 });
          drawn.push({ x, y, words: `${row.name}, mean\nreward ${number(row.raw_reward.mean)} (${between(row.raw_reward)})\ncost ${number(row.cost.mean)} (${between(row.cost)})` });
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
      view().data ? el("span", {}, "● episodes of the data   ┄ the best of them for each cost") : "");
    picture.redraw();
    return true;
  };
  function toggle(name) {
    if (!state.hidden.delete(name)) state.hidden.add(name);
    refresh();
  }
}

// How restrictive: reward and cost over eps, measured and predicted.

function restriction(body) {
  const sources = () => [
    ...view().sweeps.filter((sweep) => sweep.mode === state.actions || !view().sweeps.some((each) => each.mode === state.actions))
      .map((sweep) => ({ name: sweep.policy, points: sweep.points, dashed: false })),
    ...page.calibrations.filter((each) => each.task === view().task && each.points.length)
      .map((each) => ({ name: each.seed === null ? "predicted" : `predicted for seed ${each.seed}`, points: each.points, dashed: true })),
  ];
  const values = () => [...new Set(sources().flatMap((source) => source.points.map((point) => point.restriction)))].sort((a, b) => a - b);
  const told = el("output", { for: "eps" });
  const slider = el("input", { id: "eps", type: "range", min: 0, step: 1, "aria-label": "restriction eps", oninput: () => {
    state.restriction = values()[Number(slider.value)];
    show();
    remember();
  } });
  const words = el("div", { id: "eps-words", "aria-live": "polite" });
  const plots = el("div", { class: "plots" }), chosen = el("div");
  body.append(el("div", { class: "slider" }, el("label", { for: "eps" }, "eps"), slider, told), words, plots, chosen);
  const hosts = [0, 1, 2].map(() => plots.appendChild(el("div")));
  const references = () => rows().filter((row) => row.restriction === null && view().sweeps.some((sweep) => sweep.settings === row.settings));
  const over = (what) => (width) => {
    const ends = sources().flatMap((source) => source.points.flatMap((point) => [point[what].low, point[what].high]));
    const flat = references().map((row) => (what === "cost" ? row.cost.mean : row.raw_reward.mean));
    const span = values();
    return {
      title: `${what} over eps`, height: 250, top: 24,
      x: { range: extent([...span], 0.05), label: "eps" },
      y: { range: extent([...ends, ...flat, ...(what === "cost" ? [0, budget()] : [])]), label: `${what} of an episode` },
      draw: (plot) => {
        if (what === "cost") levelBudget(plot, budget(), budgetLabel());
        const named = [];  // lines that nearly coincide share a label
        for (const row of references()) {
          const { colour, dashes } = style(row.name);
          const y = plot.y(what === "cost" ? row.cost.mean : row.raw_reward.mean);
          plot.add("line", { x1: plot.left, x2: plot.right, y1: y, y2: y, stroke: colour, "stroke-width": 1.5, "stroke-dasharray": dashes || "1 3" });
          const near = named.find((each) => Math.abs(each.y - y) < 14);
          if (near) near.names.push(row.name); else named.push({ y, names: [row.name] });
        }
        for (const { y, names } of named) plot.add("text", { x: plot.right, y: y - 5, "text-anchor": "end" }, listed(names));
        for (const source of sources()) curve(plot, source, what);
        plot.add("line", { class: "cross", x1: plot.x(state.restriction), x2: plot.x(state.restriction), y1: plot.top, y2: plot.bottom });
      },
      moved: (plot, x, y, event) => {
        if (x !== null && event.type === "pointerdown") {
          const at = span.map((eps) => Math.abs(plot.x(eps) - x));
          slider.value = at.indexOf(Math.min(...at));
          slider.dispatchEvent(new Event("input"));
        }
      },
    };
  };
  function curve(plot, source, what) {
    const { colour, shape } = style(source.name);
    const pairs = (end) => source.points.map((point) => [plot.x(point.restriction), plot.y(point[what][end])]);
    plot.add("path", { d: band(pairs("high"), pairs("low")), fill: colour, opacity: 0.15 });
    plot.add("path", { d: line(pairs("mean")), fill: "none", stroke: colour, "stroke-width": 2, "stroke-dasharray": source.dashed ? "6 4" : null });
    source.points.forEach((point) => {
      const now = point.restriction === state.restriction;
      plot.add("path", { d: mark(shape, plot.x(point.restriction), plot.y(point[what].mean), now ? 7 : 4), fill: colour, stroke: now ? "var(--ink)" : null, "stroke-width": 1.5 });
    });
  }
  const path = (width) => {
    const points = sources().flatMap((source) => source.points);
    return {
      title: "Reward against cost as eps grows", height: 250, top: 24,
      x: { range: extent([0, budget(), ...points.map((point) => point.cost.mean)]), label: "cost of an episode" },
      y: { range: extent(points.map((point) => point.reward.mean)), label: "reward of an episode" },
      draw: (plot) => {
        uprightBudget(plot, budget(), budgetLabel(), true);
        for (const source of sources()) {
          const { colour, shape } = style(source.name);
          const at = (point) => [plot.x(point.cost.mean), plot.y(point.reward.mean)];
          plot.add("path", { d: line(source.points.map(at)), fill: "none", stroke: colour, "stroke-width": 1.5, "stroke-dasharray": source.dashed ? "6 4" : null });
          for (const point of source.points) {
            const now = point.restriction === state.restriction;
            plot.add("path", { d: mark(shape, ...at(point), now ? 7.5 : 4), fill: colour, stroke: now ? "var(--ink)" : null, "stroke-width": 1.5 });
            if (now && !source.dashed) plot.add("text", { class: "name", x: at(point)[0] + (at(point)[0] > plot.right - 70 ? -12 : 12), y: at(point)[1] + 4, "text-anchor": at(point)[0] > plot.right - 70 ? "end" : "start" }, `eps ${short(point.restriction)}`);
          }
        }
      },
    };
  };
  const pictures = [chart(hosts[0], over("reward")), chart(hosts[1], over("cost")), chart(hosts[2], path)];
  function show() {
    told.textContent = `eps ${short(state.restriction)}`;
    words.replaceChildren(...sources().flatMap((source) => {
      const point = source.points.find((each) => each.restriction === state.restriction);
      return point ? [el("p", {}, ...pointWords(source, point))] : [];
    }), el("p", { class: "quiet" }, largest()));
    pictures.forEach((picture) => picture.redraw());
  }
  function pointWords(source, point) {
    const level = judge(point.cost);
    const overs = point.costs ? `; ${point.costs.filter((cost) => cost > budget()).length} of ${point.costs.length} episodes over it` : "";
    return [swatch(source.name), source.dashed ? `${source.name.replace("p", "P")} from data alone: ` : `${source.name}, measured: `,
      `reward ${number(point.reward.mean)} (${between(point.reward)}), cost ${number(point.cost.mean)} (${between(point.cost)}): `,
      el("span", { class: `tone ${level}` }, LEVELS[level].words), ` at ${budgetWords()}${overs}.`];
  }
  function largest() {
    return sources().map((source) => {
      const fitting = source.points.filter((point) => judge(point.cost) === "safe").map((point) => point.restriction);
      const what = source.dashed ? source.name : `measured (${source.name})`;
      return fitting.length ? `The largest eps whose whole interval is inside the budget, ${what}: ${short(Math.max(...fitting))}.`
        : `No eps has its whole interval inside the budget, ${what}.`;
    }).join(" ");
  }
  return () => {
    const there = values();
    if (there.length < 2) return false;
    if (!there.includes(state.restriction)) {
      const near = there.map((eps) => Math.abs(eps - (state.restriction ?? rows()[0]?.restriction ?? Infinity)));
      state.restriction = there[Math.max(0, near.indexOf(Math.min(...near)))];
    }
    slider.max = there.length - 1;
    slider.value = there.indexOf(state.restriction);
    chosen.replaceChildren(...page.calibrations.filter((each) => each.task === view().task && each.budgets.length).map(budgets));
    show();
    return true;
  };
  function budgets(calibration) {
    const sure = calibration.confidence ? ` by estimates meant to hold ${percent(calibration.confidence)} of the time` : "";
    return el("p", { class: "quiet", id: "calibrated" }, el("code", {}, "lspc calibrate"), ` chose, from the data of ${calibration.run} alone${calibration.seed === null ? "" : ` for seed ${calibration.seed}`}${sure}: `,
      listed(calibration.budgets.map((each) => `${each.restriction === null ? "no eps" : `eps ${short(each.restriction)}`} for budget ${short(each.budget)}`)), ".");
  }
}

// Training curves: small multiples with one crosshair for all.

const OVERVIEW = ["reward/value_mean", "cost/value_mean", "cost/predicted_of_lspc_o", "cost/predicted_of_lspc_s", "cvae/reconstruction", "encoder/distance_to_data"];
const MEANINGS = {
  "measured/reward of LSPC-O": "mean reward of an episode in the simulator",
  "measured/cost of LSPC-O": "mean cost of an episode in the simulator",
  "reward/value_mean": "mean value of the data's states; still rising: the critics have not levelled off",
  "cost/value_mean": "mean cost expected from the data's states; still rising: not levelled off",
  "cost/predicted_of_lspc_s": "discounted cost the critic expects of LSPC-S's actions",
  "cost/predicted_of_lspc_o": "discounted cost the critic expects of LSPC-O's actions: far above S is a warning",
  "cost/effective_share": "share of the batch that counts in the regression of safe actions",
  "reward/effective_share": "share of the batch that counts in the regression of rewarding actions",
  "cvae/reconstruction": "error of decoded actions",
  "cvae/kl": "information in the latent; near zero LSPC-O cannot differ from LSPC-S",
  "encoder/latents_at_edge": "share of LSPC-O's latents at the wall of the box; large: a wider eps would change it",
  "encoder/distance_to_data": "distance of LSPC-O's actions from the data's; growing: it leaves the data",
};

function curves(body) {
  const trained = page.runs.filter((run) => run.curves);
  const names = [...new Set(trained.flatMap((run) => Object.keys(run.curves.metrics)))];
  const overview = [...names.filter((name) => name.startsWith("measured/")), ...OVERVIEW.filter((name) => names.includes(name))];
  const groups = [...(overview.length ? ["overview"] : []), ...new Set(names.map((name) => name.split("/")[0]))];
  state.group = groups[0];
  const told = el("p", { class: "quiet", id: "step-words" }, " "), plots = el("div", { class: "plots" });
  body.append(choice("group", "show", groups.map((group) => ({ value: group, words: group })), state.group, (value) => { state.group = value; build(); }), told, plots);
  let pictures = [], step = null;
  const colourOf = (run) => (trained.length > 1 ? style(`run ${run.name}`) : { colour: "var(--s0)", dashes: "" });
  // What was measured in the simulator has fewer points than the metrics.
  const stepsOf = (run, name) => (name.startsWith("measured/") ? run.curves.measured : run.curves.steps);
  const mean = (series, place) => series.reduce((sum, values) => sum + values[place], 0) / series.length;

  function build() {
    const wanted = state.group === "overview" ? overview : names.filter((name) => name.split("/")[0] === state.group);
    plots.replaceChildren();
    pictures = wanted.map((name) => {
      const readout = el("p", { class: "readout" }, MEANINGS[name] ?? " ");
      const host = el("div", {}, el("h3", {}, name));
      plots.append(host);
      const picture = chart(host, () => spec(name));
      host.append(readout);
      return { picture, name };
    });
    pictures.forEach(({ picture }) => picture.redraw());
  }
  function spec(name) {
    const there = trained.filter((run) => run.curves.metrics[name]);
    const last = Math.max(...there.map((run) => stepsOf(run, name).at(-1)));
    return {
      title: `${name} against training steps, ${listed(there.map((run) => `${run.name} ends at ${number(mean(run.curves.metrics[name], stepsOf(run, name).length - 1))}`))}`,
      height: 170, top: 8, left: 48,
      x: { range: [0, last] },
      y: { range: extent(there.flatMap((run) => run.curves.metrics[name].flat())) },
      draw: (plot) => {
        for (const run of there) {
          const { colour, dashes } = colourOf(run);
          const { metrics } = run.curves, steps = stepsOf(run, name);
          const pairs = (value) => steps.map((at, place) => [plot.x(at), plot.y(value(place))]);
          if (metrics[name].length > 1) metrics[name].forEach((values) => plot.add("path", { d: line(pairs((place) => values[place])), fill: "none", stroke: colour, opacity: 0.4, "stroke-width": 1 }));
          plot.add("path", { d: line(pairs((place) => mean(metrics[name], place))), fill: "none", stroke: colour, "stroke-width": 2.2, "stroke-dasharray": dashes || null });
        }
        if (step !== null) {
          plot.add("line", { class: "cross", x1: plot.x(step), x2: plot.x(step), y1: plot.top, y2: plot.bottom });
          there.forEach((run, number_) => {
            const value = mean(run.curves.metrics[name], placeOf(run, name));
            plot.add("circle", { cx: plot.x(stepsOf(run, name)[placeOf(run, name)]), cy: plot.y(value), r: 4, fill: colourOf(run).colour });
            plot.add("text", { class: "name", x: plot.right, y: plot.top + 12 + 14 * number_, "text-anchor": "end" }, trained.length > 1 ? `${run.name} ${short(value)}` : short(value));
          });
        }
      },
      moved: (plot, x) => point(x === null ? null : Math.max(0, Math.min(last, ((x - plot.left) / (plot.right - plot.left)) * last))),
      keys: (event) => {
        const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
        if (!by) return;
        event.preventDefault();
        const steps = stepsOf(there[0], name);
        const place = step === null ? (by > 0 ? -1 : steps.length) : placeOf(there[0], name);
        point(steps[Math.max(0, Math.min(steps.length - 1, place + by))]);
      },
    };
  }
  function placeOf(run, name = "") {
    const steps = stepsOf(run, name);
    let best = 0;
    steps.forEach((at, place) => { if (Math.abs(at - step) < Math.abs(steps[best] - step)) best = place; });
    return best;
  }
  function point(at) {
    if (at === null && step === null) return;
    step = at === null ? null : trained[0].curves.steps[((step = at), placeOf(trained[0]))];
    told.textContent = step === null ? " " : `after ${step.toLocaleString("en")} updates`;
    pictures.forEach(({ picture }) => picture.redraw());
  }
  build();
  if (trained.length > 1) {
    body.append(el("div", { class: "legend" }, trained.map((run) => el("span", {}, swatch(`run ${run.name}`), run.name))));
  }
  return () => trained.length > 0;
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
      ["episodes", `${told.episodes.toLocaleString("en")} of ${told.lengths.min === told.lengths.max ? "" : `${told.lengths.min} to `}${told.lengths.max} steps: ${told.transitions.toLocaleString("en")} transitions`],
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
    const pairs = [["run", run.name], ["method", `${run.method}, lspc ${run.version}`], ["training seeds", run.seeds.join(", ")],
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
  section("table", "Policies", "Normalised reward: 0 and 1 are the task's worst and best. Small print: 95 % intervals over training seeds and episodes. Bold: mean cost inside the budget.", policies);
  section("plane", "Reward against cost", "Each small mark is an episode, each large one a policy's mean. Good is up and to the left of the dashed line. Press a name to hide it.", plane);
  section("sweep", "How restrictive should it be?", "LSPC-O looks for reward inside a box of half-width eps around the careful actions. Move the slider to see what it gains and what it costs.", restriction);
  section("curves", "Training", "Thin lines are training seeds, thick ones their mean. Point at a curve to read all of them at that step.", curves);
  const pair = main.appendChild(el("div", { class: "pair" }));
  if (page.actions) section("actions", "Actions in one state", `${page.actions.policies[0].drawn.length} actions drawn by each policy; large marks are their deterministic actions. Of ${page.actions.states} states spread over the data it is the one where the first two policies differ most. The outline is the convex hull of LSPC-S.`, actions, pair);
  if (page.clip) section("clip", "An episode", `${page.clip.policy}, deterministic actions, the first of the measured episodes. The bar beneath fills with cost; its middle is the budget of ${page.clip.budget}.`, clip, pair);
  section("profile", "The data it learned from", null, profile);
  if (page.runs.length) section("settings", "Settings", "Where each value came from: defaults < preset < task < user.", settings);
  if (page.notes.length) section("notes", page.kind === "bench" ? "Missing or left out" : "Not in this page yet", null, (body) => { body.append(el("ul", {}, page.notes.map((note) => el("li", {}, ...coded(note))))); return () => true; });
  if (!pair.childElementCount) pair.remove();
  document.getElementById("foot").append(`Written by lspc ${page.version}. Everything is inside this file: it needs no network and sends nothing.`);
  refresh();
  addEventListener("hashchange", () => { recall(); settle(); controls(); refresh(); });
}
function subtitle() {
  if (page.kind === "bench") return `${page.views.length} task${page.views.length === 1 ? "" : "s"}; pick one, and a cost budget, below`;
  const [run] = page.runs;
  const more = page.runs.length > 1 ? `${page.runs.length} runs: ${listed(page.runs.map((each) => each.name))}` : `Run “${run.name}”`;
  return `${more}, trained on ${run.dataset.episodes_used} episodes of ${run.dataset.source}`;
}
start();
