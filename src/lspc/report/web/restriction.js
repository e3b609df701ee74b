// How restrictive: reward and cost over eps, measured and predicted.

function restriction(body) {
  const sources = () => [
    ...view().sweeps.filter((sweep) => sweep.mode === state.actions || !view().sweeps.some((each) => each.mode === state.actions))
      .map((sweep) => ({ name: sweep.policy, policy: sweep.policy, points: sweep.points, predicted: false })),
    ...calibrations().map((each) => ({ name: each.seed === null ? "predicted" : `predicted for seed ${each.seed}`, policy: "LSPC-O", points: each.points, predicted: true, speaks_from: each.speaks_from })),
  ];
  const values = () => [...new Set(sources().flatMap((source) => source.points.map((point) => point.restriction)))].sort((a, b) => a - b);
  const told = el("output", { for: "eps" });
  const slider = el("input", { id: "eps", type: "range", min: 0, step: 1, "aria-label": "restriction eps", oninput: () => {
    state.restriction = values()[Number(slider.value)];
    show();
    remember();
  } });
  const words = el("div", { id: "eps-words", "aria-live": "polite" });
  const plots = el("div", { class: "plots" }), legend = el("div", { class: "legend" }), chosen = el("div");
  body.append(el("div", { class: "slider" }, el("label", { for: "eps" }, "eps"), slider, told), words, plots, legend, chosen);
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
    const { colour, shape } = style(source.policy);
    const pairs = (end) => source.points.map((point) => [plot.x(point.restriction), plot.y(point[what][end])]);
    if (source.points.every((point) => point[what].low !== null)) plot.add("path", { d: band(pairs("high"), pairs("low")), fill: colour, opacity: source.predicted ? 0.1 : 0.18 });
    plot.add("path", { d: line(pairs("mean")), fill: "none", stroke: colour, "stroke-width": 2, "stroke-dasharray": source.predicted ? PREDICTED : null });
    source.points.forEach((point) => {
      const now = point.restriction === state.restriction;
      plot.add("path", { d: mark(shape, plot.x(point.restriction), plot.y(point[what].mean), now ? 7 : source.predicted ? 3 : 4), ...painted(colour, source.predicted), ...(now ? { stroke: "var(--ink)", "stroke-width": 1.5 } : {}) });
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
          const { colour, shape } = style(source.policy);
          const at = (point) => [plot.x(point.cost.mean), plot.y(point.reward.mean)];
          plot.add("path", { d: line(source.points.map(at)), fill: "none", stroke: colour, "stroke-width": 1.5, "stroke-dasharray": source.predicted ? PREDICTED : null });
          for (const point of source.points) {
            const now = point.restriction === state.restriction;
            plot.add("path", { d: mark(shape, ...at(point), now ? 7.5 : source.predicted ? 3 : 4), ...painted(colour, source.predicted), ...(now ? { stroke: "var(--ink)", "stroke-width": 1.5 } : {}) });
            if (now && (!source.predicted || !sources().some((each) => !each.predicted))) plot.add("text", { class: "name", x: at(point)[0] + (at(point)[0] > plot.right - 70 ? -12 : 12), y: at(point)[1] + 4, "text-anchor": at(point)[0] > plot.right - 70 ? "end" : "start" }, `eps ${short(point.restriction)}`);
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
    const fits = source.speaks_from !== null && source.speaks_from <= budget() && point.cost.high <= budget();
    const level = source.predicted ? (fits ? "likely" : "unlikely") : judge(point);
    const words = !source.predicted ? `${LEVELS[level].words} at` : fits ? "predicted to keep" : "not predicted to keep";
    const overs = point.costs ? `; ${point.costs.filter((cost) => cost > budget()).length} of ${point.costs.length} episodes over it` : "";
    return [swatch(source.policy, source.predicted), source.predicted ? `${source.name.replace("p", "P")} from the logs alone: ` : `${source.name}, measured: `,
      `reward ${number(point.reward.mean)} (${between(point.reward)}), cost ${number(point.cost.mean)} (${between(point.cost)}): `,
      el("span", { class: `tone ${level}` }, words), ` ${budgetWords()}${overs}.`];
  }
  function largest() {
    return sources().map((source) => {
      const fitting = source.points.filter((point) => point.cost.high < budget()).map((point) => point.restriction);
      const what = source.predicted ? source.name : `measured (${source.name})`;
      return fitting.length ? `The largest eps whose whole interval is inside the budget, ${what}: ${short(Math.max(...fitting))}.`
        : `No eps has its whole interval inside the budget, ${what}.`;
    }).join(" ");
  }
  return () => {
    const there = values();
    if (there.length < 2) return false;
    if (!there.includes(state.restriction)) {
      const near = there.map((eps) => Math.abs(eps - (state.restriction ?? rows()[0]?.restriction ?? predictions()[0]?.restriction ?? Infinity)));
      state.restriction = there[Math.max(0, near.indexOf(Math.min(...near)))];
    }
    slider.max = there.length - 1;
    slider.value = there.indexOf(state.restriction);
    legend.replaceChildren(...legendOf({ measured: view().sweeps.length > 0, predicted: calibrations().length > 0 }));
    chosen.replaceChildren(...calibrations().filter((each) => each.budgets.length).map(budgets));
    show();
    return true;
  };
  function budgets(calibration) {
    const sure = calibration.confidence ? ` with upper bounds meant to hold ${percent(calibration.confidence)} of the time` : "";
    return el("p", { class: "quiet", id: "calibrated" }, el("code", {}, "lspc calibrate"), ` chose, from the data of run “${calibration.run}” alone${calibration.seed === null ? "" : ` for seed ${calibration.seed}`}${sure}: `,
      listed(calibration.budgets.map((each) => `${each.restriction === null ? "no eps" : `eps ${short(each.restriction)}`} for budget ${short(each.budget)}`)), ".");
  }
}

