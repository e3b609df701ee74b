// The answer in words: what was measured, else what was proved by a pilot, else what the logs predict.

const LEVELS = {
  safe: { words: "safe", badge: "M-5.5 0.5 -1.5 4.5 5.5 -3.5" },
  likely: { words: "probably safe", badge: "M-6 1C-4 -4 -2 -3 0 0S4 4 6 -1" },
  open: { words: "not known to be safe", badge: "M-3.5 -3.2C-3.5 -7 3.5 -7 3.5 -3C3.5 -0.5 0 -0.5 0 2.2M0 5.9V6" },
  unlikely: { words: "probably not safe", badge: "M0 -6V1.5M0 5.5V5.6" },
  unsafe: { words: "not safe", badge: "M-3.6 -3.6 3.6 3.6M3.6 -3.6 -3.6 3.6" },
};
const CONFIDENCE = 0.95;
// "Probably" takes a mean that one more episode would leave on its side of the budget, even the dearest possible one
// or one without cost; and one episode alone is never enough.
function judge({ cost, episodes }, limit = budget()) {
  if (cost.high < limit) return "safe";
  if (cost.low >= limit) return "unsafe";
  if (episodes === 1) return "open";
  const withOneMore = (extra) => (cost.mean * episodes + extra) / (episodes + 1);
  if (withOneMore(Math.max(view().largest, cost.mean)) < limit) return "likely";
  return withOneMore(0) >= limit ? "unlikely" : "open";
}
const isSafe = (row) => row.cost.mean < budget();
function badge(level) {
  const rim = ["safe", "likely", "open"].includes(level) ? svg("circle", { r: 11 }) : svg("path", { d: "M0 -12 12 0 0 12 -12 0Z" });
  const mark = svg("path", { d: LEVELS[level].badge });
  return svg("svg", { class: `badge ${level}`, viewBox: "-13 -13 26 26", "aria-hidden": "true", fill: "none",
    stroke: "currentColor", "stroke-width": 2.4, "stroke-linecap": "round", "stroke-linejoin": "round" }, rim, mark);
}

// How sure: the largest share of episodes over the budget that k of n do not rule out (Clopper and Pearson).
function shareAtMost(k, n) {
  if (k >= n) return 1;
  const chance = (p) => {  // of k or fewer
    let term = n * Math.log1p(-p), sum = Math.exp(term);
    for (let i = 1; i <= k; i += 1) {
      term += Math.log((n - i + 1) / i) + Math.log(p) - Math.log1p(-p);
      sum += Math.exp(term);
    }
    return sum;
  };
  let low = k / n, high = 1;
  for (let i = 0; i < 40; i += 1) {
    const middle = (low + high) / 2;
    if (chance(middle) <= 1 - CONFIDENCE) high = middle; else low = middle;
  }
  return high;
}
// Episodes with this mean after which the bound on the mean would be inside the budget (Hoeffding's inequality).
function episodesNeeded(mean, limit, largest) {
  const p = mean / largest, q = limit / largest;
  if (!(p < q) || q >= 1) return null;
  const apart = (p > 0 ? p * Math.log(p / q) : 0) + (1 - p) * Math.log((1 - p) / (1 - q));
  return Math.ceil(-Math.log(1 - CONFIDENCE) / apart);
}

// What `lspc calibrate` would choose for this budget: the same rule, applied to the curve it left.
const ofThisTask = (each) => each.task === null || each.task === view().task;
const calibrations = () => page.calibrations.filter((each) => ofThisTask(each) && each.points.length);
function choose(calibration, limit = budget()) {
  const { speaks_from, points } = calibration;
  if (speaks_from === null || limit < speaks_from) return null;
  const end = points.findIndex((point) => point.cost.high > limit);
  const fitting = end < 0 ? points : points.slice(0, end);
  return fitting.length ? fitting.reduce((best, point) => (point.reward.mean > best.reward.mean ? point : best)) : null;
}
// One row for each calibrated policy: at the chosen eps or, where none fits, at the smallest.
function predictions() {
  const several = new Set(calibrations().map((each) => each.seed)).size > 1;
  return calibrations().map((calibration) => {
    const chosen = choose(calibration), point = chosen ?? calibration.points[0];
    return { predicted: true, fits: chosen !== null, calibration, policy: "LSPC-O", restriction: point.restriction,
      name: several ? `eps ${short(point.restriction)}, seed ${calibration.seed}` : `LSPC-O, eps ${short(point.restriction)}`,
      cost: point.cost, raw_reward: point.reward };
  });
}
const certificates = () => page.certificates.filter((each) => ofThisTask(each) && each.budget === budget());

function verdict(body, node) {
  const words = body.appendChild(el("div")), ruler = body.appendChild(el("div")), drawCosts = costs(ruler);
  const title = (level, text) => {
    node.className = `verdict ${level}`;
    node.querySelector("h2").replaceChildren(badge(level), el("span", {}, text));
  };
  return () => {
    const [head, ...others] = rows();
    const [predicted] = predictions(), proved = certificates().find((each) => each.restriction !== null);
    const on = page.views.length > 1 ? `${view().task}: ` : "";
    ruler.hidden = !head && !predicted;
    if (head) {
      const level = judge(head);
      title(level, `${on}${head.name} is ${LEVELS[level].words} at ${budgetWords()}.`);
      words.replaceChildren(answers(isItSafe(head), atWhichBudget(head), howSure(head)),
        others.length ? el("p", { id: "others" }, ...othersWords(others)) : "", ...alsoKnown(predicted), ...warned());
    } else if (proved) {
      title("safe", `${on}LSPC-O at eps ${short(proved.restriction)} keeps ${budgetWords()}: a pilot of ${proved.episodes} episodes proved it.`);
      words.replaceChildren(...alsoKnown(predicted), ...warned());
    } else if (predicted) {
      title(predicted.fits ? "likely" : "unlikely", on + (predicted.fits
        ? `LSPC-O at eps ${short(predicted.restriction)} is predicted to keep ${budgetWords()}.` : `No eps is predicted to keep ${budgetWords()}.`));
      words.replaceChildren(answers(predictedSafe(predicted), predictedBudgets(predicted), predictedSure(predicted)), ...warned());
    } else {
      node.className = "";
      node.querySelector("h2").textContent = "Is it safe? Not known yet.";
      words.replaceChildren(...page.notes.filter((note) => note.startsWith("measured") || note.startsWith("the eps")).map((note) => el("p", {}, ...coded(note))), ...warned());
      return page.kind === "runs";
    }
    if (!ruler.hidden) drawCosts();
    return true;
  };
}
const answers = (safe, at, sure) => el("div", { class: "answers" },
  el("div", {}, el("h3", {}, "Is it safe?"), el("p", { id: "is-it-safe" }, safe)),
  el("div", {}, el("h3", {}, "At which budget?"), el("p", { id: "at-which-budget" }, at)),
  el("div", {}, el("h3", {}, "How sure?"), el("p", { id: "how-sure" }, sure)));

// Beside a verdict by measurement: what a pilot proved and what the logs predict.
function alsoKnown(predicted) {
  const told = certificates().map((each) => el("p", { class: "certificate" }, badge(each.restriction === null ? "unlikely" : "safe"), " Pilot: ", each.words.at(-1), "."));
  if (predicted) {
    told.push(el("p", { id: "predicted" }, swatch("LSPC-O", true), predicted.fits
      ? `For ${budgetWords()}, the logs alone suggest eps ${short(predicted.restriction)}: predicted cost ${number(predicted.cost.mean)} (${between(predicted.cost)}), reward ${number(predicted.raw_reward.mean)}.`
      : `From the logs alone, no eps is predicted to keep ${budgetWords()}.`));
  }
  return told;
}
function warned() {
  const warnings = page.runs.flatMap((run) => run.curves?.warnings ?? []);
  return warnings.length ? [el("p", { class: "warning" }, `⚠ ${warnings.length === 1 ? warnings[0].words : `${warnings.length} warnings about training: `}`,
    warnings.length > 1 ? el("a", { href: "#curves", onclick: (event) => { event.preventDefault(); document.getElementById("curves").scrollIntoView(); } }, "see the curves") : "")] : [];
}

function isItSafe(row) {
  const over = row.points.filter(([cost]) => cost > budget()).length;
  const worst = Math.max(...row.points.map(([cost]) => cost));
  const share = ` (with 95\u00a0% confidence, at most ${percent(shareAtMost(over, row.episodes))} do)`;
  const episodes = `${over ? `${over} of ${row.episodes} episodes (${percent(over / row.episodes)})` : row.episodes === 1 ? "The only episode did not go" : `None of ${row.episodes} episodes`}${!over && row.episodes === 1 ? "" : " went"} over the budget${share}; the worst cost ${short(worst)}.`;
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
  if (!logged) return null;
  const inside = logged.best.filter(([cost]) => cost <= budget());
  if (!inside.length) return null;
  const [low, high] = logged.range;
  const scaled = (reward) => (reward - low) / (high - low), best = scaled(inside[inside.length - 1][1]);
  return best > 0 ? scaled(row.raw_reward.mean) / best : null;
}
function atWhichBudget(row) {
  const of = (wanted) => view().thresholds.filter((k) => judge(row, k) === wanted);
  const told = [];
  if (of("safe").length) told.push(`Safe at ${listed(of("safe"))}.`);
  if (of("likely").length) told.push(`Probably safe at ${listed(of("likely"))}.`);
  if (of("open").length) told.push(`Not known at ${listed(of("open"), "or")}.`);
  if (of("unlikely").length) told.push(`Probably not at ${listed(of("unlikely"), "or")}.`);
  if (of("unsafe").length) told.push(`Not at ${listed(of("unsafe"), "or")}.`);
  const free = row.points.every(([cost]) => cost === 0) ? " No episode had any cost." : "";
  return `${told.join(" ")}${free} These episodes support any budget above ${number(row.cost.high)}.`;
}
function howSure(row) {
  const each = row.episodes / row.seeds;
  const episodes = `${short(each)} ${each === 1 ? "episode" : "episodes"}`;
  const based = row.seeds === 1 ? `${episodes} of 1 training seed` : `${row.seeds} training seeds, ${episodes} each`;
  const told = [`The mean cost is ${between(row.cost)}, with 95 % confidence in each of the two ends (${based}; no episode can cost more than ${short(view().largest)}).`];
  if (judge(row) === "open") told.push(row.episodes === 1 ? "One episode is too few to tell." : "Too few to tell: one more could move the mean to the other side of the budget.");
  const needed = ["likely", "open"].includes(judge(row)) ? episodesNeeded(row.cost.mean, budget(), view().largest) : null;
  if (needed > row.episodes) told.push(`About ${needed.toLocaleString("en")} episodes like these would be needed to be sure of this budget.`);
  if (row.seeds === 1) told.push("This is about one training run only; `--seeds 0 1 2` shows how much training runs differ.");
  return coded(told.join(" "));
}
function othersWords(others) {
  const words = [];
  for (const row of others) {
    const level = judge(row);
    words.push(words.length ? ", " : "For comparison: ", `${row.name} is `, el("span", { class: `tone ${level}` }, LEVELS[level].words),
      ` (reward ${number(row.reward.mean)}, cost ${number(row.cost.mean)})`);
  }
  return [...words, "."];
}

function predictedSafe(row) {
  const told = `From the logs alone: an episode at eps ${short(row.restriction)} is expected to cost ${number(row.cost.mean)} (${between(row.cost)})`;
  const logged = view().data?.row;
  const share = shareOfBest(row);
  const earned = `and to earn ${number(row.raw_reward.mean)}${share === null ? "" : `, ${percent(share)} of the data's best episode within the budget`}.`;
  return `${told} ${earned}` + (logged ? ` The logged episodes cost ${number(logged.cost.mean)} and earned ${number(logged.raw_reward.mean)} on average.` : "");
}
function predictedBudgets({ calibration }) {
  const told = view().thresholds.map((k) => ({ k, point: choose(calibration, k) }));
  const fit = told.filter((each) => each.point).map(({ k, point }) => `eps ${short(point.restriction)} for ${short(k)}`);
  const not = told.filter((each) => !each.point).map((each) => short(each.k));
  const least = calibration.points[0].cost.high;
  const unspoken = calibration.speaks_from === null ? " The data, or the models learned from them, cannot speak of any budget." :
    calibration.speaks_from > least ? ` The data have too few episodes that cost little to speak of budgets below ${number(calibration.speaks_from)}.` : least > 0 ? ` The smallest budget that some eps is predicted to keep is ${number(least)}.` : " At the smallest eps, no cost at all is predicted.";
  return `${fit.length ? `Predicted: ${listed(fit)}. ` : ""}${not.length ? `No eps for ${listed(not, "or")}.` : ""}${unspoken}`;
}
function predictedSure({ calibration }) {
  const sure = calibration.confidence ? `The upper end is meant to hold ${percent(calibration.confidence)} of the time. ` : "";
  return coded(`${sure}It is an estimate: nothing has been tried. A few real episodes turn it into a proof (\`lspc pilot\`), a simulation into a measurement (\`lspc evaluate\`).`);
}

// Costs of all policies on one ruler: filled is measured, hollow is predicted.

function costs(body) {
  const all = () => [...rows(), ...predictions(), ...(view().data?.row ? [view().data.row] : [])];
  const host = body.appendChild(el("div")), legend = body.appendChild(el("div", { class: "legend" }));
  const picture = chart(host, (width) => {
    const there = all();
    const left = Math.min(160, width * 0.4), step = 28;
    const most = Math.max(budget() * 1.15, ...there.map((row) => row.cost.high * 1.05));
    return {
      title: `Mean cost and how sure it is: ${there.map((row) => `${row.name}${row.predicted ? " (predicted)" : ""} ${number(row.cost.mean)} (${between(row.cost)})`).join("; ")}`,
      height: there.length * step + 74, left, top: 24,
      x: { range: [0, most], label: "mean cost of an episode" },
      y: { range: [there.length - 0.5, -0.5], ticks: [] },
      draw: (plot) => {
        uprightBudget(plot, budget(), budgetLabel());
        there.forEach((row, place) => {
          const { colour, shape } = row === view().data?.row ? LOGGED : style(row.predicted ? row.policy : row.name);
          const y = plot.y(place);
          const wide = row.name.length > left / 7 ? `${row.name.slice(0, Math.floor(left / 7) - 1)}…` : row.name;
          plot.add("text", { class: "name", x: left - 10, y: y + 4, "text-anchor": "end" }, wide);
          plot.add("line", { x1: plot.x(row.cost.low), x2: plot.x(row.cost.high), y1: y, y2: y, stroke: colour,
            "stroke-width": row.predicted ? 2 : 5, "stroke-dasharray": row.predicted ? PREDICTED : null, "stroke-linecap": row.predicted ? "butt" : "round", opacity: row.predicted ? 0.9 : 0.45 });
          plot.add("path", { d: mark(shape, plot.x(row.cost.mean), y, 6), ...painted(colour, row.predicted) });
        });
      },
    };
  });
  return () => {
    legend.replaceChildren(...legendOf({ measured: rows().length > 0, predicted: predictions().length > 0, logged: Boolean(view().data?.row) }));
    picture.redraw();
  };
}
