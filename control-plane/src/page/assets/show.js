// Small means of showing things. Whatever comes from outside becomes text and nothing else: there is no innerHTML on this page.

const byId = (id) => document.getElementById(id);

/** An element with its classes, attributes and children; strings become text. */
function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== undefined && value !== null) made.setAttribute(name, value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

/** Sets text only where it differs, so that selections and screen readers are left alone. */
function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

function setAttribute(node, name, value) {
  if (value === null) node.removeAttribute(name);
  else if (node.getAttribute(name) !== value) node.setAttribute(name, value);
}

/** What every condition is called, and how it looks. */
const WORDS = {
  rejecting: ["rejecting", "bad"],
  overloaded: ["overloaded", "warn"],
  shedding: ["shedding", "warn"],
  silent: ["silent", "warn"],
  full: ["full", "warn"],
  ok: ["ok", "good"],
  current: ["current", "good"],
  stale: ["stale", "bad"],
  elsewhere: ["not here", "quiet"],
  unreported: ["no reports", "quiet"],
};

function word(condition) {
  const [text, tone] = WORDS[condition] || [condition, "quiet"];
  return element("span", { class: "word", "data-tone": tone }, text);
}

function setWord(cell, condition) {
  if (cell.dataset.condition === condition) return;
  cell.dataset.condition = condition;
  cell.replaceChildren(word(condition));
}

const UNKNOWN = "–";
/** The module that does not tell its version. */
const UNKNOWN_VERSION = "unknown version";
const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const tenths = new Intl.NumberFormat("en", { minimumFractionDigits: 1, maximumFractionDigits: 1 });
const hundredths = new Intl.NumberFormat("en", { minimumFractionDigits: 2, maximumFractionDigits: 2 });

/** A count. */
const count = (value) => (value === null || value === undefined ? UNKNOWN : whole.format(value));

/** Something per second: as many digits as say something. */
function rate(value) {
  if (value === null || value === undefined) return UNKNOWN;
  if (value === 0) return "0";
  if (value >= 100) return whole.format(value);
  return value >= 10 ? tenths.format(value) : hundredths.format(value);
}

/** A time in seconds. */
function time(seconds) {
  if (seconds === null || seconds === undefined) return UNKNOWN;
  const [value, unit] = seconds < 1 ? [1000 * seconds, "ms"] : [seconds, "s"];
  return `${value >= 100 ? whole.format(value) : value >= 10 ? tenths.format(value) : hundredths.format(value)} ${unit}`;
}

/** Both quantiles. */
const quantiles = (both) => (both ? `${time(both.p50)} / ${time(both.p99)}` : UNKNOWN);

/** The share of calls that did not end well. */
const unserved = (calls) => calls.failed + calls.exhausted + calls.refused;

/** A ratio as a percentage. */
function percent(ratio) {
  if (ratio === null || ratio === undefined) return UNKNOWN;
  if (ratio === 0) return "0%";
  return ratio < 0.001 ? "<0.1%" : `${ratio < 0.1 ? tenths.format(100 * ratio) : whole.format(100 * ratio)}%`;
}

/** The control plane's clock may differ from this one by so many milliseconds. */
let clockSkew = 0;

/** How long ago a time was. */
function ago(time) {
  const seconds = Math.max(0, Math.round((Date.now() + clockSkew - Date.parse(time)) / 1000));
  if (seconds < 60) return `${seconds} s ago`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ago`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)} h ago`;
  return `${Math.floor(seconds / 86400)} d ago`;
}

const timeElement = (time) => element("time", { datetime: time, title: time }, ago(time));

/** As much of a version as tells it from others. */
const short = (version) => (version.length > 16 ? `${version.slice(0, 8)}…` : version);

const SVG = "http://www.w3.org/2000/svg";
const SLOTS = 90;

function svgElement(tag, attributes) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
}

/** A path over the last samples, the newest at the right; a gap where nothing was known. */
function path(values, most) {
  let text = "";
  let pen = "M";
  values.forEach((value, i) => {
    if (value === null) {
      pen = "M";
      return;
    }
    text += `${pen}${SLOTS - values.length + i} ${(23 - 22 * (value / most)).toFixed(1)}`;
    // A single sample is a dot and not nothing.
    if (pen === "M") text += "h.01";
    pen = "L";
  });
  return text;
}

/** A sparkline of series `{values, bad}` in one scale that begins at 0; `label` says the same in words. */
function sparkline(series, label, large) {
  const most = Math.max(1e-9, ...series.flatMap((one) => one.values).filter((value) => value !== null));
  const box = svgElement("svg", {
    class: large ? "spark large" : "spark", viewBox: `0 0 ${SLOTS - 1} 24`, preserveAspectRatio: "none", role: "img", "aria-label": label,
  });
  box.append(svgElement("line", { x1: 0, x2: SLOTS - 1, y1: 23.5, y2: 23.5 }));
  for (const { values, bad } of series) {
    if (values.length > 0) box.append(svgElement("path", { d: path(values, most), class: bad ? "bad" : "" }));
  }
  return box;
}

/** The least, the greatest and the last of a series in words. */
function inWords(values, unit) {
  const known = values.filter((value) => value !== null);
  if (known.length === 0) return "not measured yet";
  const last = values[values.length - 1];
  const number = (value) => (Number.isInteger(value) ? whole.format(value) : rate(value));
  const extremes = `${number(Math.min(...known))} to ${number(Math.max(...known))}${unit}`;
  return last === null ? `${extremes}, now not known` : `${extremes}, now ${number(last)}`;
}

/**
 * Brings the rows of a table up to date: those that stay keep their nodes, so that focus and selection stay too.
 * `make(item)` gives `{row, update(item)}`.
 */
function reconcile(body, rows, items, key, make) {
  const wanted = new Set(items.map(key));
  for (const [name, { row }] of rows) {
    if (!wanted.has(name)) {
      row.remove();
      rows.delete(name);
    }
  }
  const focused = document.activeElement;
  let place = body.firstElementChild;
  for (const item of items) {
    const name = key(item);
    let known = rows.get(name);
    if (!known) {
      known = make(item);
      rows.set(name, known);
    }
    known.update(item);
    if (known.row === place) place = place.nextElementSibling;
    else body.insertBefore(known.row, place);
  }
  // A row that moved has lost the focus.
  if (focused && focused !== document.activeElement && body.contains(focused)) focused.focus({ preventScroll: true });
}
