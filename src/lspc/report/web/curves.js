// Training curves: small multiples with one crosshair for all.

const OVERVIEW = ["reward/value_mean", "cost/value_mean", "cost/predicted_of_lspc_o", "cost/predicted_of_lspc_s", "cvae/reconstruction", "encoder/distance_to_data"];
const MEANINGS = {
  "measured/reward of LSPC-O": "mean reward of an episode in the simulator",
  "measured/cost of LSPC-O": "mean cost of an episode in the simulator",
  "reward/value_mean": "mean value of the data's states",
  "cost/value_mean": "mean cost expected from the data's states",
  "cost/predicted_of_lspc_s": "discounted cost the critic expects of LSPC-S's actions",
  "cost/predicted_of_lspc_o": "discounted cost the critic expects of LSPC-O's actions",
  "cost/effective_share": "share of the batch that counts in the regression of safe actions",
  "reward/effective_share": "share of the batch that counts in the regression of rewarding actions",
  "cvae/reconstruction": "error of decoded actions",
  "cvae/kl": "information in the latent",
  "encoder/latents_at_edge": "share of LSPC-O's latents at the edge of the box",
  "encoder/distance_to_data": "distance of LSPC-O's actions from the data's",
};

function curves(body) {
  const trained = page.runs.filter((run) => run.curves);
  const names = [...new Set(trained.flatMap((run) => Object.keys(run.curves.metrics)))];
  const overview = [...names.filter((name) => name.startsWith("measured/")), ...OVERVIEW.filter((name) => names.includes(name))];
  const groups = [...(overview.length ? ["overview"] : []), ...new Set(names.map((name) => name.split("/")[0]))];
  state.group = groups[0];
  const told = el("p", { class: "quiet", id: "step-words" }, " "), plots = el("div", { class: "plots" });
  const warnings = trained.flatMap((run) => run.curves.warnings.map((each) => ({ ...each, run })));
  if (warnings.length) body.append(el("ul", { id: "warnings" }, warnings.map((each) => el("li", { class: "warning" }, `⚠ ${trained.length > 1 ? `${each.run.name}: ` : ""}${each.words}`))));
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
      const host = el("div", {}, el("h3", {}, name, warnings.some((each) => each.metric === name) ? el("span", { class: "warning" }, " ⚠") : null));
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

