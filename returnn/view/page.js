"use strict";
(() => {
const COLORS = ["#2b6cb0", "#dd6b20", "#2f855a", "#c53030", "#805ad5", "#8b5e3c", "#d53f8c", "#718096", "#b7950b", "#0e9aa7"];
const MINUTE = 60, MB = 1e6;
const WHOLE = [...Array(9).keys()].flatMap(power => [1, 2, 5].map(digit => digit * 10 ** power));
const REFRESH_MS = 5000;
const get = id => document.getElementById(id);
const hiddenRuns = new Set();
let data = JSON.parse(get("data").textContent);
const isExported = data !== null;
let charts = [];
let chosenSearch = {};

function make(parent, tag, text, className) {
  const node = parent.appendChild(document.createElement(tag));
  if (text !== undefined && text !== null) node.textContent = text;
  if (className) node.className = className;
  return node;
}

function makeSvg(parent, tag, attributes) {
  const node = parent.appendChild(document.createElementNS("http://www.w3.org/2000/svg", tag));
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  return node;
}

const colorOf = number => COLORS[number % COLORS.length];
const shownRuns = () => data.runs.map((run, number) => ({run, number})).filter(({run}) => !hiddenRuns.has(run.folder + run.name));

function brief(value) {
  if (value === null || value === undefined) return "";
  if (typeof value !== "number" || Number.isInteger(value)) return String(value);
  return Math.abs(value) >= 1e-3 && Math.abs(value) < 1e6 ? String(Number(value.toPrecision(4))) : value.toExponential(2);
}

function duration(seconds) {
  if (seconds === null || seconds === undefined) return "";
  const whole = Math.round(seconds), minutes = Math.floor(whole / MINUTE);
  return `${Math.floor(minutes / 60)}:${String(minutes % 60).padStart(2, "0")}:${String(whole % MINUTE).padStart(2, "0")}`;
}

function section(id, isWanted) {
  const node = get(id);
  node.hidden = !isWanted;
  const content = node.lastElementChild;
  content.replaceChildren();
  return content;
}

// Curves.

function chart(parent, title, xLabel, curves, format) {
  const xs = [...new Set(curves.flatMap(curve => curve.x))].sort((a, b) => a - b);
  const columns = curves.map(curve => {
    const byX = new Map(curve.x.map((x, i) => [x, curve.y[i]]));
    return xs.map(x => byX.has(x) ? byX.get(x) : null);
  });
  const values = columns.flat().filter(value => value !== null);
  if (!values.length) return;
  const isLog = get("log-scale").checked && values.every(value => value > 0);
  const style = getComputedStyle(document.body);
  const axis = {stroke: style.color, grid: {stroke: "#8883", width: 1}, ticks: {stroke: "#8883", width: 1}};
  const shown = value => value === null || value === undefined ? "" : (format || brief)(value);
  const box = make(parent, "div");
  charts.push(new uPlot({
    title,
    width: box.clientWidth,
    height: 240,
    legend: {markers: {width: 2, fill: (_, i) => curves[i - 1]?.dash ? "transparent" : curves[i - 1]?.color}},
    scales: {x: {time: false}, y: {distr: isLog ? 3 : 1}},
    axes: [{...axis, label: xLabel, labelSize: 20, incrs: WHOLE}, {...axis, size: 78, values: (_, ticks) => ticks.map(shown)}],
    series: [
      {label: xLabel},
      ...curves.map(curve => ({
        label: curve.label, stroke: curve.color, dash: curve.dash, width: 1.6, spanGaps: true,
        points: {show: curve.x.length <= 40, size: 5}, value: (_, value) => shown(value),
      })),
    ],
  }, [xs, ...columns], box));
}

const dashOf = name => name === "train" || name === "" ? undefined : name === "dev" ? [5, 4] : [2, 3]; // steps are many
const named = (run, rest) => data.runs.length > 1 ? [run.name, rest].filter(Boolean).join(" ") : rest || run.name;

function showEpochs() {
  const kinds = new Map();
  for (const {run, number} of shownRuns()) {
    for (const [key, y] of Object.entries(run.epochs.scores)) {
      const [dataset, ...rest] = key.split("_");
      const kind = rest.join("_") || key;
      if (!kinds.has(kind)) kinds.set(kind, []);
      kinds.get(kind).push({x: run.epochs.epoch, y, label: named(run, dataset), color: colorOf(number), dash: dashOf(dataset)});
    }
  }
  const rates = ofEpochs("learning_rate");
  const content = section("curves", kinds.size || rates.length);
  for (const [kind, curves] of kinds) chart(content, kind, "epoch", curves);
  if (rates.length) chart(content, "learning rate", "epoch", rates);
}

function ofEpochs(name, what, dash) {
  return shownRuns().filter(({run}) => run.epochs[name].some(value => value !== null)).map(({run, number}) => ({
    x: run.epochs.epoch, y: run.epochs[name], label: named(run, what), color: colorOf(number), dash,
  }));
}

function showResources() {
  const times = [...ofEpochs("duration_s", "training"), ...ofEpochs("data_wait_s", "of it, waiting for data", [5, 4])];
  const memory = ofEpochs("memory_bytes");
  const content = section("resources", times.length || memory.length);
  if (times.length) chart(content, "time of an epoch", "epoch", times, duration);
  if (memory.length) chart(content, "memory", "epoch", memory, value => `${Math.round(value / MB)} MB`);
}

function showSteps() {
  const tags = new Map();
  for (const {run, number} of shownRuns()) {
    for (const curve of run.steps) {
      if (!tags.has(curve.tag)) tags.set(curve.tag, []);
      tags.get(curve.tag).push({...curve, label: named(run, curve.data), color: colorOf(number), dash: dashOf(curve.data)});
    }
  }
  const content = section("steps", tags.size);
  for (const [tag, curves] of tags) chart(content, tag, "step", curves);
}

// Tables.

function lastAndBest(run, key) {
  const values = (run.epochs.scores[key] || []).filter(value => value !== null);
  return values.length ? `${brief(values[values.length - 1])} (least ${brief(Math.min(...values))})` : "";
}

function showRuns() {
  const content = section("runs", true);
  const keys = [...new Set(data.runs.flatMap(run => Object.keys(run.epochs.scores)))].slice(0, 6);
  const table = make(content, "table");
  const head = make(table, "tr");
  for (const name of ["run", "state", "epochs", ...keys.map(key => key.replace("_", " ")), "time", "options are from"]) make(head, "th", name);
  data.runs.forEach((run, number) => {
    const row = make(table, "tr");
    const name = make(make(row, "td"), "label");
    const box = make(name, "input");
    box.type = "checkbox";
    box.checked = !hiddenRuns.has(run.folder + run.name);
    box.addEventListener("change", () => {
      hiddenRuns[box.checked ? "delete" : "add"](run.folder + run.name);
      show();
    });
    make(name, "span", undefined, "swatch").style.background = colorOf(number);
    name.append(run.name);
    name.title = run.folder;
    make(row, "td", run.state || "not recorded", run.state || "muted");
    const last = run.epochs.epoch.length ? run.epochs.epoch[run.epochs.epoch.length - 1] : 0;
    make(row, "td", run.num_epochs ? `${last} of ${run.num_epochs}` : String(last), "number");
    for (const key of keys) make(row, "td", lastAndBest(run, key), "number");
    const durations = run.epochs.duration_s.filter(value => value !== null);
    make(row, "td", durations.length ? duration(durations.reduce((a, b) => a + b)) : "", "number");
    make(row, "td", run.options_source.split("/").pop(), "muted");
  });
}

function showDifferences() {
  const content = section("differences", data.differences.length);
  if (!data.differences.length) return;
  const table = make(content, "table");
  const head = make(table, "tr");
  make(head, "th", "option");
  data.runs.forEach((run, number) => {
    const cell = make(head, "th");
    make(cell, "span", undefined, "swatch").style.background = colorOf(number);
    cell.append(run.name);
  });
  for (const {name, values} of data.differences) {
    const row = make(table, "tr");
    make(row, "td", name);
    for (const value of values) make(row, "td", value === null ? "–" : value, value === null ? "muted" : "");
  }
}

// What happened.

const moment = seconds => seconds ? new Date(seconds * 1000).toLocaleString() : "at an unknown time";

function showTimeLine() {
  const runs = shownRuns().filter(({run}) => run.time_line.length);
  const content = section("time-line", runs.length);
  for (const {run, number} of runs) {
    make(content, "h3", run.name);
    const events = run.time_line.filter(event => event.time > 0);
    if (events.length) drawLine(content, run, events, colorOf(number));
    const table = make(content, "table");
    for (const event of run.time_line.filter(event => event.kind !== "epoch")) {
      const row = make(table, "tr");
      make(row, "td", moment(event.time), "number muted");
      make(row, "td", event.text, event.kind === "error" ? "failed" : event.kind === "end" ? "finished" : "");
    }
  }
}

function drawLine(parent, run, events, color) {
  const first = events[0].time, last = Math.max(events[events.length - 1].time, first + 1);
  const at = time => 1 + 98 * (time - first) / (last - first);
  const svg = makeSvg(parent, "svg", {class: "line", viewBox: "0 0 100 10", preserveAspectRatio: "none"});
  let start = null;
  const bar = (from, to) => makeSvg(svg, "rect", {x: at(from), y: 3.5, width: Math.max(at(to) - at(from), .15), height: 3, fill: color, opacity: .45});
  for (const event of events) {
    if (event.kind === "start") {
      // No end is known of one that was killed: it went on at least to what came last.
      start = event.time;
    } else if (start !== null && event.kind !== "search") {
      bar(start, event.time);
      start = event.kind === "epoch" ? event.time : null;
    }
  }
  if (start !== null && start < last) bar(start, last);
  for (const event of events) {
    const fill = {error: "var(--bad)", end: "var(--good)", start: color, search: "#805ad5", epoch: color}[event.kind];
    const isSmall = event.kind === "epoch";
    const mark = makeSvg(svg, "rect", {x: at(event.time) - (isSmall ? .05 : .15), y: isSmall ? 2.5 : 0, width: isSmall ? .1 : .3, height: isSmall ? 5 : 10, fill});
    makeSvg(mark, "title", {}).textContent = `${moment(event.time)}: ${event.text}`;
  }
}

function showSamples() {
  const runs = shownRuns().filter(({run}) => run.searches.some(search => search.samples.length));
  const content = section("samples", runs.length);
  for (const {run} of runs) {
    make(content, "h3", run.name);
    const choice = make(content, "select");
    choice.setAttribute("aria-label", `search of ${run.name}`);
    run.searches.forEach((search, i) => { make(choice, "option", `${search.epoch ? `epoch ${search.epoch}` : "a checkpoint without epoch"}, ${moment(search.time)}`).value = i; });
    const key = run.folder + run.name;
    choice.value = key in chosenSearch && chosenSearch[key] < run.searches.length ? chosenSearch[key] : run.searches.length - 1;
    const list = make(content, "div");
    const fill = () => {
      list.replaceChildren();
      const search = run.searches[choice.value];
      for (const score of search.scores) make(list, "p", score, "muted");
      for (const sample of search.samples) showSample(list, sample);
    };
    choice.addEventListener("change", () => { chosenSearch[key] = Number(choice.value); fill(); });
    fill();
  }
}

function showSample(parent, {tag, words}) {
  const line = make(parent, "p", undefined, "sample");
  make(line, "span", tag, "tag");
  words.forEach(([found, wanted], i) => {
    if (i) line.append(" ");
    if (found === wanted) {
      line.append(found);
      return;
    }
    if (wanted !== null) make(line, "del", wanted).title = found === null ? "is missing" : "reference";
    if (wanted !== null && found !== null) line.append(" ");
    if (found !== null) make(line, "ins", found).title = wanted === null ? "is too much" : "hypothesis";
  });
  if (!words.length) make(line, "span", "(nothing, as it should be)", "muted");
}

function showPictures() {
  const kinds = {attention: picture => picture.is_attention, pictures: picture => !picture.is_attention};
  for (const [id, isOfKind] of Object.entries(kinds)) {
    const runs = shownRuns().map(({run}) => ({run, pictures: run.pictures.filter(isOfKind)})).filter(({pictures}) => pictures.length);
    const content = section(id, runs.length);
    for (const {run, pictures} of runs) {
      make(content, "h3", run.name);
      const groups = new Map();
      for (const picture of pictures) {
        const group = id === "attention" && picture.epoch !== null ? picture.name : "";
        if (!groups.has(group)) groups.set(group, []);
        groups.get(group).push(picture);
      }
      for (const group of groups.values()) {
        const row = make(content, "div", undefined, "pictures");
        for (const picture of group.sort((a, b) => (a.epoch ?? -1) - (b.epoch ?? -1))) {
          const figure = make(row, "figure");
          const image = make(figure, "img");
          image.loading = "lazy";
          image.alt = picture.path;
          image.src = picture.content || `picture?id=${encodeURIComponent(picture.id)}`;
          make(figure, "figcaption", picture.epoch === null ? picture.path : `${picture.name}, epoch ${picture.epoch}`);
        }
      }
    }
  }
}

function showProblems() {
  const problems = data.runs.flatMap(run => run.problems);
  const list = section("problems", problems.length);
  for (const problem of problems) make(list, "li", problem);
}

function show() {
  for (const old of charts) old.destroy();
  charts = [];
  for (const part of [showRuns, showDifferences, showEpochs, showResources, showSteps, showTimeLine, showSamples, showPictures, showProblems]) part();
}

get("log-scale").addEventListener("change", show);
let resizing = 0;
window.addEventListener("resize", () => {
  clearTimeout(resizing);
  resizing = setTimeout(() => {
    for (const one of charts) one.setSize({width: one.root.parentElement.clientWidth, height: one.height});
  }, 100);
});

let lastText = "";
async function refresh() {
  if (get("follow").checked || !lastText) {
    try {
      const response = await fetch("data.json");
      const text = await response.text();
      if (!response.ok) throw new Error(JSON.parse(text).error);
      if (text !== lastText) {
        lastText = text;
        data = JSON.parse(text);
        show();
      }
      get("state").textContent = "";
    } catch (error) {
      get("state").textContent = error instanceof TypeError ? "the server does not answer" : error.message;
    }
  }
  setTimeout(refresh, REFRESH_MS);
}

if (isExported) {
  get("follow-label").hidden = true;
  show();
} else {
  refresh();
}
})();
