// What is seen first: what needs attention, all services, what changed and what was refused.

const serviceRows = new Map();
const serviceLink = (name) => element("a", { href: `#/service/${encodeURIComponent(name)}` }, name);

/** A line of the table of services. */
function makeServiceRow(service) {
  const cell = (attributes) => element("td", attributes);
  const number = () => cell({ class: "number" });
  const wide = () => cell({ class: "number wide" });
  const cells = {
    condition: cell(), servers: wide(), arrivals: number(), rejected: number(), busy: number(), inFlight: wide(),
    senders: wide(), routing: cell({ class: "wide" }), response: wide(), called: wide(), spark: cell(),
  };
  const row = element("tr", {}, element("th", { scope: "row" }, serviceLink(service.name)), ...Object.values(cells));
  function update(service) {
    const load = service.load || {};
    setWord(cells.condition, service.condition);
    setText(cells.servers, count(load.servers));
    setText(cells.arrivals, rate(load.arrivalRatePerSecond));
    setText(cells.rejected, service.events ? percent(service.rejectedShare) : UNKNOWN);
    setAttribute(cells.rejected, "data-tone", service.condition === "rejecting" ? "bad" : service.rejectedShare > 0 ? "warn" : null);
    setText(cells.busy, percent(load.utilisationRatio));
    setAttribute(cells.busy, "data-tone", load.utilisationRatio > 1 ? "warn" : null);
    setText(cells.inFlight, count(load.demandRequests));
    setText(cells.senders, count(service.senders));
    setText(cells.routing, service.routing.replace("_", " "));
    setText(cells.response, quantiles(service.latency?.response));
    setText(cells.called, quantiles(service.latency?.callers));
    if (service.sparklines) {
      const { arrivals, rejected } = service.sparklines;
      const label = `requests: ${inWords(arrivals, "/s")}; rejected: ${inWords(rejected, "/s")}`;
      const series = [{ values: arrivals }, { values: rejected.some((value) => value > 0) ? rejected : [], bad: true }];
      cells.spark.replaceChildren(sparkline(series, label));
    }
  }
  return { row, update };
}

function showServices(status, filter) {
  reconcile(byId("service-rows"), serviceRows, status.services, (service) => service.name, makeServiceRow);
  const shown = status.services.length;
  setText(byId("services-count"), filter ? `${whole.format(status.matching)} of ${whole.format(status.total)}` : whole.format(status.total));
  const more = byId("more");
  more.hidden = shown >= status.matching;
  setText(more, `Show ${whole.format(Math.min(status.matching - shown, shown || 100))} more`);
  const empty = byId("services-empty");
  empty.hidden = shown > 0;
  setText(empty, filter ? `No service has ${JSON.stringify(filter)} in its name.` : "No services are in force.");
}

const edgeRows = new Map();

/** A line of a table of calls; `withService`: with the service that is called. */
function makeEdgeRow(edge, withService) {
  const cells = Array.from({ length: 5 }, (_, i) => element("td", { class: i === 2 ? "number wide" : "number" }));
  const service = withService ? [element("td", {}, serviceLink(edge.service))] : [];
  const row = element("tr", {}, element("th", { scope: "row" }, edge.caller), ...service, ...cells);
  function update({ calls, latency }) {
    const texts = [rate(calls.requests), percent(unserved(calls)), percent(calls.retried), time(latency?.p50), time(latency?.p99)];
    texts.forEach((text, i) => setText(cells[i], text));
    setAttribute(cells[1], "data-tone", unserved(calls) > 0.01 ? "bad" : null);
  }
  return { row, update };
}

function showEdges(status) {
  byId("calls").hidden = status.edges.length === 0;
  reconcile(byId("edge-rows"), edgeRows, status.edges, (edge) => `${edge.caller} ${edge.service}`, (edge) => makeEdgeRow(edge, true));
  const rest = status.edgeCount - status.edges.length;
  setText(byId("edges-rest"), rest > 0 ? `and ${whole.format(rest)} with fewer requests` : "");
}

const cpuRows = new Map();

/** The lines of an application on a node: itself, then its containers. */
function cpuLines(app) {
  const { name, node, observed } = app;
  const key = `${name} ${node}`;
  const inner = app.containers.map((of) => ({ ...of, key: `${key} ${of.pod} ${of.container}`, title: `${of.pod}/${of.container}`, inner: true }));
  const rest = app.containerCount - inner.length;
  if (rest > 0) inner.push({ key: `${key} and`, title: `and ${whole.format(rest)} more`, inner: true });
  return [{ ...app, key, title: observed ? `${name} (observed: not in force)` : name }, ...inner];
}

/** A line of the table of CPU. */
function makeCpuRow(line) {
  const cells = Array.from({ length: 7 }, (_, i) => element("td", { class: ["", "number", "number wide", "number", "number", "number wide", "number"][i] }));
  const row = element("tr", {}, element("th", { scope: "row", class: line.inner ? "inner" : "" }), ...cells);
  function update({ title, inner, node, limit, free, quota, used, slack, throttled }) {
    setText(row.firstElementChild, title);
    const texts = [inner ? "" : node, inner ? "" : rate(limit), inner ? "" : rate(free), rate(quota), rate(used), rate(slack), inner ? percent(throttled) : ""];
    texts.forEach((text, i) => setText(cells[i], text));
    setAttribute(cells[6], "data-tone", throttled > 0 ? "warn" : null);
  }
  return { row, update };
}

function showCpu(status) {
  byId("cpu").hidden = status.apps.length === 0;
  reconcile(byId("cpu-rows"), cpuRows, status.apps.flatMap(cpuLines), (line) => line.key, makeCpuRow);
  const rest = status.appCount - status.apps.length;
  setText(byId("apps-rest"), rest > 0 ? `and ${whole.format(rest)} more applications` : "");
}

/** What needs attention, the worst first: `{word, tone, key, nodes}`. */
function problemsOf(status) {
  const problems = [];
  const add = (word, tone, text, ...nodes) => problems.push({ word, tone, text, nodes });
  if (!status.ready) add("not ready", "bad", "not ready", "No services are in force here, or this replica is shutting down.");
  for (const refusal of status.refusals) {
    const times = refusal.times > 1 ? `, ${refusal.times} times` : "";
    const code = element("code", {}, refusal.message);
    add("refused", "bad", `refused: ${refusal.message}`, code, ` from ${refusal.source}, `, timeElement(refusal.at), `${times}. What was in force before stays in force.`);
  }
  if (status.proxies.stale > 0) {
    const names = status.stale.slice(0, 5).map((proxy) => `${proxy.proxy} (has ${proxy.version === null ? "none" : `version ${short(proxy.version)}`})`).join(", ");
    const rest = status.proxies.stale > 5 ? `, and ${status.proxies.stale - 5} more` : "";
    const many = status.proxies.stale === 1 ? "1 proxy does" : `${whole.format(status.proxies.stale)} proxies do`;
    add("stale", "bad", `${status.proxies.stale} stale`, `${many} not take the newest state: ${names}${rest}`);
  }
  const listed = (names, all) => names.slice(0, 5).join(", ") + (all > 5 ? `, and ${whole.format(all - 5)} more` : "");
  for (const { proxy, services } of status.modules.unread) {
    add("unread", "bad", `${proxy} unread`, `${proxy} could not read the parameters of ${listed(services, services.length)}; it keeps the last good ones, or passes requests untouched if there are none`);
  }
  for (const { feature, proxies, named, services } of status.modules.lacking) {
    const many = proxies === 1 ? "1 proxy lacks" : `${whole.format(proxies)} proxies lack`;
    add("lacking", "warn", `${feature} lacking`, `${many} ${feature}, needed by ${listed(services, services.length)}: ${listed(named, proxies)}`);
  }
  for (const service of status.troubled) {
    const load = service.load || {};
    const what = {
      rejecting: () => service.latency?.calls ? ` rejects ${percent(seen(service))} of its requests as its users see it, retries included (servers: ${percent(service.rejectedShare)})` : ` rejects ${percent(service.rejectedShare)} of its requests (${rate(service.events.rejectedCapacity)}/s for its capacity, ${rate(service.events.rejectedDeadline)}/s for their deadline)`,
      shedding: () => ` rejects a few requests (${percent(service.latency?.calls ? seen(service) : service.rejectedShare)})`,
      overloaded: () => ` receives ${percent(load.utilisationRatio)} of what its servers can handle; queues grow`,
      silent: () => ": none of its servers has reported to this replica for a minute; they are gone, or ask another one",
    }[service.condition];
    const [text, tone] = WORDS[service.condition];
    add(text, tone, `${service.name} ${text}`, serviceLink(service.name), what() + overflow(service));
  }
  const counted = ["rejecting", "overloaded", "shedding", "silent"].reduce((sum, name) => sum + (status.conditions[name] || 0), 0);
  const more = counted - status.troubled.length;
  if (more > 0) add("and", "quiet", `${more} more`, `${whole.format(more)} more services; the table below has them first.`);
  return problems;
}

/** The share of its requests that users saw rejected. */
const seen = ({ latency }) => latency.calls.exhausted + latency.calls.refused;

/** Users saw rejections that retries might have healed: more servers are not what helps. */
function overflow({ latency }) {
  const share = latency?.calls?.overflowed;
  return share > 0 ? `; Envoy did not retry ${percent(share)} of its requests: raise maxRetries, or the retry budget, of its circuit breaker` : "";
}

let announced = null;
let shownProblems = "";

function showProblems(status) {
  const problems = problemsOf(status);
  const section = byId("attention");
  section.hidden = false;
  const tones = problems.map((problem) => problem.tone);
  section.dataset.tone = tones.includes("bad") ? "bad" : tones.includes("warn") ? "warn" : "good";
  setText(byId("attention-title"), problems.length > 0 ? "Needs attention" : "Nothing needs attention");
  const items = problems.map(({ word, tone, nodes }) =>
    element("li", {}, element("span", { class: "word", "data-tone": tone }, word), element("div", {}, ...nodes)));
  // Without how long ago: that goes on by itself.
  const text = problems.map(({ word, nodes }) => word + nodes.map((node) => node.dateTime ?? node.textContent ?? node).join("")).join("\n");
  if (text !== shownProblems) {
    shownProblems = text;
    // Whoever stands on one of the links stays there.
    const focused = document.activeElement?.closest("#problems a")?.getAttribute("href");
    byId("problems").replaceChildren(...items);
    if (focused) [...byId("problems").querySelectorAll("a")].find((link) => link.getAttribute("href") === focused)?.focus();
  }
  const severe = problems.filter((problem) => problem.tone !== "quiet");
  document.title = severe.length > 0 ? `(${severe.length}) BLOC` : "BLOC";
  // Said when the list of problems is another one, not at each of its numbers; and not when the page opens.
  const heard = severe.map((problem) => problem.text).join("; ");
  if (announced !== null && announced !== heard) setText(byId("announce"), heard ? `Needs attention: ${heard}` : "Nothing needs attention any more");
  announced = heard;
}

function showFacts(status) {
  const { connected } = status.proxies;
  const parts = [`${status.source}`, `version ${short(status.version)}`, `${whole.format(connected)} ${connected === 1 ? "proxy" : "proxies"}`];
  const versions = status.modules.versions.map(({ module, proxies }) => `${module ?? UNKNOWN_VERSION} (${whole.format(proxies)})`);
  if (versions.length > 0) parts.push(`modules ${versions.join(", ")}`);
  if (status.instance) parts.push(`as seen by ${status.instance}`);
  setText(byId("facts"), parts.join(" · "));
}

let allEvents = false;
const FEW_EVENTS = 12;

function showHistory(events) {
  const shown = allEvents ? events : events.slice(0, FEW_EVENTS);
  byId("events").replaceChildren(...shown.map(eventItem));
  if (events.length === 0) byId("events").append(element("li", { class: "quiet" }, "Nothing has happened yet."));
  byId("more-events").hidden = shown.length === events.length;
}

function eventItem(event) {
  if (event.kind === "refusal") {
    const [text, tone] = event.resolved ? ["refused, fixed since", "quiet"] : ["refused", "bad"];
    const times = event.times > 1 ? ` (${event.times} times)` : "";
    return element("li", {}, element("span", { class: "word", "data-tone": tone }, text), timeElement(event.at),
      element("div", {}, element("code", {}, event.message), times), element("div", { class: "quiet" }, event.source));
  }
  const lines = event.services.map((service) => element("li", {}, serviceLink(service.name), ` ${service.what.join(", ")}`));
  const rest = event.changed - event.services.length;
  if (rest > 0) lines.push(element("li", { class: "quiet" }, `and ${whole.format(rest)} more`));
  return element("li", {}, element("span", { class: "word", "data-tone": "quiet" }, event.kind === "endpoints" ? "endpoints" : "changed"), timeElement(event.at),
    element("ul", {}, ...lines), element("div", { class: "quiet" }, `version ${short(event.version)}, ${event.source}`));
}
