// The page as a whole: what is asked for when, the way between list and service, the keyboard.

const EVERY_MS = 2000;
const PATIENCE_MS = 10000;
const LINES = 100;

const view = { filter: "", sort: "condition", limit: LINES, asked: null, sample: null, drawn: null, history: null, events: [], failed: false, lastGood: null };
/** What the last answer of each kind was to, and its tag. */
const tags = new Map();

/**
 * JSON of a path; `null` if it is the same as what `kind` was last answered with. Throws if there is no answer; an error's `status` is
 * that of the answer.
 */
async function ask(kind, path) {
  const seen = tags.get(kind);
  const headers = seen?.path === path ? { "If-None-Match": seen.tag } : {};
  const response = await fetch(path, { headers, cache: "no-store", signal: AbortSignal.timeout(PATIENCE_MS) });
  const date = Date.parse(response.headers.get("date") || "");
  if (Math.abs(date - Date.now()) > 2000) clockSkew = date - Date.now();
  if (response.status === 304) return null;
  if (!response.ok) throw Object.assign(new Error(`status ${response.status}`), { status: response.status });
  const value = await response.json();
  tags.set(kind, { path, tag: response.headers.get("etag") });
  return value;
}

const serviceOf = (hash) => {
  const match = /^#\/service\/(.+)$/.exec(hash);
  try {
    return match ? decodeURIComponent(match[1]) : null;
  } catch {
    return null;
  }
};

/** What the table of services is asked for. */
const wanted = () => new URLSearchParams({ filter: view.filter, sort: view.sort, limit: view.limit }).toString();

async function refreshGlance() {
  const asked = wanted();
  // The last 15 minutes are sent only when there is something new to draw.
  const draw = view.drawn !== view.sample || view.asked !== asked;
  const status = await ask("glance", `/v1/status?${asked}${draw ? "&sparklines=true" : ""}`);
  if (wanted() !== asked) {
    tags.delete("glance");
    return;
  }
  if (!status) return;
  if (draw) view.drawn = status.sample;
  [view.sample, view.asked] = [status.sample, asked];
  showFacts(status);
  showProblems(status);
  showServices(status, view.filter);
  showEdges(status);
  showCpu(status);
  if (view.history !== status.history) {
    view.events = (await ask("history", "/v1/status/history"))?.events ?? view.events;
    view.history = status.history;
    showHistory(view.events);
  }
}

async function refreshService() {
  const name = serviceOf(location.hash);
  if (name === null) return;
  try {
    const report = await ask("service", `/v1/status/services/${encodeURIComponent(name)}`);
    if (serviceOf(location.hash) !== name) tags.delete("service");
    else if (report) {
      if (opened?.name !== name || opened.missing) openServiceView(name);
      showService(report);
    }
  } catch (error) {
    if (error.status !== 404) throw error;
    tags.delete("service");
    if (serviceOf(location.hash) === name) showNoService(name);
  }
}

function openServiceView(name) {
  tags.delete("service");
  openService(name);
}

let refreshing = null;
let again = false;

/** Asks for everything that is shown; one round at a time. */
function refresh() {
  if (refreshing) {
    again = true;
    return refreshing;
  }
  refreshing = (async () => {
    do {
      again = false;
      try {
        await Promise.all([refreshGlance(), refreshService()]);
        view.failed = false;
        view.lastGood = new Date();
      } catch (error) {
        view.failed = true;
        console.warn("no answer:", error.message);
      }
      showConnection();
      showTimes();
    } while (again);
    refreshing = null;
  })();
  return refreshing;
}

/** Times that are told as so long ago grow older. */
function showTimes() {
  for (const node of document.querySelectorAll("time")) setText(node, ago(node.dateTime));
}

function showConnection() {
  const place = byId("connection").firstElementChild;
  const time = view.lastGood ? view.lastGood.toLocaleTimeString() : "never";
  setText(place, view.failed ? `no answer, last at ${time}` : "live");
  setAttribute(place, "data-tone", view.failed ? "bad" : "good");
  if (view.failed) setText(byId("announce"), "The control plane does not answer.");
}

async function keepRefreshing() {
  for (;;) {
    if (!document.hidden) await refresh();
    await new Promise((resolve) => setTimeout(resolve, EVERY_MS));
  }
}

/** Shows what the address says: all services, or one. */
function follow(event) {
  const name = serviceOf(location.hash);
  const before = opened?.name ?? null;
  byId("services").hidden = name !== null;
  byId("service").hidden = name === null;
  if (name !== null) {
    if (before !== name) openServiceView(name);
    if (event) {
      byId("service-title").focus({ preventScroll: true });
      scrollTo(0, 0);
    }
    refresh();
  } else if (before !== null || byId("service-body").childNodes.length > 0) {
    opened = null;
    byId("service-body").replaceChildren();
    const link = before === null ? null : serviceRows.get(before)?.row.querySelector("a");
    if (event) (link || byId("filter")).focus();
  }
}

addEventListener("hashchange", follow);
document.addEventListener("visibilitychange", () => {
  if (!document.hidden) refresh();
});
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName);
  if (event.key === "/" && !typing && serviceOf(location.hash) === null) {
    event.preventDefault();
    byId("filter").focus();
  } else if (event.key === "Escape" && serviceOf(location.hash) !== null) {
    location.hash = "#/";
  }
});
let typed = 0;
byId("filter").addEventListener("input", () => {
  clearTimeout(typed);
  typed = setTimeout(() => {
    view.filter = byId("filter").value.trim();
    view.limit = LINES;
    refresh();
  }, 150);
});
byId("sort").addEventListener("change", () => {
  view.sort = byId("sort").value;
  refresh();
});
byId("more").addEventListener("click", () => {
  view.limit += LINES;
  refresh();
});
byId("more-events").addEventListener("click", () => {
  allEvents = true;
  showHistory(view.events);
});
document.querySelector(".skip").addEventListener("click", (event) => {
  // The address says which service is open; it is not to be replaced.
  event.preventDefault();
  byId("main").focus();
});

follow(null);
keepRefreshing();
