// One service: its parameters, servers and senders, and the last 15 minutes.

let opened = null;

/** A table of its own inside of a region that scrolls. */
function tableOf(id, title, heads) {
  const body = element("tbody");
  const head = heads.map(([text, kind]) => element("th", { scope: "col", class: kind }, text));
  const heading = element("h3", { id }, title);
  const table = element("table", { "aria-labelledby": id }, element("thead", {}, element("tr", {}, ...head)), body);
  const region = element("div", { class: "scroll", role: "region", "aria-labelledby": id, tabindex: "0" }, table);
  const note = element("p", { class: "quiet" });
  return { heading, region, body, note, rows: new Map() };
}

/** The skeleton of the view of a service; `update` fills it in. */
function openService(name) {
  const title = element("h2", { id: "service-title", tabindex: "-1" }, name);
  const state = element("span");
  const figures = {};
  const figureList = element("dl", { class: "figures" });
  for (const [key, text] of [
    ["servers", "Servers"], ["inFlight", "In flight"], ["capacity", "Capacity"], ["arrivals", "Requests/s"], ["departures", "Departures/s"],
    ["busy", "Busy"], ["rejected", "Rejected"], ["bounced", "Bids bounced/s"], ["confidence", "Confidence"], ["chips", "Chips given"],
    ["response", "Response p50 / p99"], ["execution", "Application p50 / p99"], ["called", "Callers p50 / p99"],
    ["failed", "Callers: failed"], ["exhausted", "Callers: rejected"], ["overflowed", "Callers: not retried by Envoy"], ["retried", "Callers: retried"],
    ["refused", "Callers: refused (SLO)"],
    ["dispersion", "Burstiness 0.1 / 1 / 10 s"],
  ]) {
    figures[key] = element("dd", {}, UNKNOWN);
    figureList.append(element("div", {}, element("dt", {}, text), figures[key]));
  }
  const charts = element("div", { class: "charts" });
  const parameters = element("dl", { class: "parameters" });
  const addresses = element("p", { class: "quiet" });
  const servers = tableOf("servers-title", "Servers", [
    ["Proxy"], ["Condition"], ["Queue", "number"], ["Capacity", "number"], ["Departures/s", "number"], ["Confidence", "number"],
    ["Chips/s", "number"], ["No chip/s", "number wide"], ["Rejected/s", "number"], ["Bids bounced/s", "number wide"], ["Module", "wide"], ["Heard", "number"],
  ]);
  const callers = tableOf("callers-title", "Callers", [
    ["Caller"], ["Requests/s", "number"], ["Not served", "number"], ["Retried", "number wide"], ["p50", "number"], ["p99", "number"],
  ]);
  const senders = tableOf("senders-title", "Senders", [["Proxy"], ["State"], ["Version", "number"], ["Module", "wide"], ["Heard", "number"]]);
  byId("service-body").replaceChildren(
    element("div", { class: "title" }, title, state), figureList, charts,
    element("h3", {}, "Parameters in force"), parameters, addresses,
    servers.heading, servers.region, servers.note, callers.heading, callers.region, callers.note, senders.heading, senders.region, senders.note,
  );
  opened = { name, title, state, figures, charts, parameters, addresses, servers, callers, senders, sample: null, written: null };
}

function showService(report) {
  const load = report.load || {};
  const events = report.events;
  setWord(opened.state, report.condition);
  const figure = (key, text) => setText(opened.figures[key], text);
  const chips = events ? events.chipsGranted + events.chipsWithheld : 0;
  figure("servers", count(load.servers));
  figure("inFlight", count(load.demandRequests));
  figure("capacity", load.servers > 0 && load.capacityRequests === null ? "no limit" : count(load.capacityRequests));
  figure("arrivals", rate(load.arrivalRatePerSecond));
  figure("departures", rate(events?.departures));
  figure("busy", percent(load.utilisationRatio));
  figure("rejected", events ? percent(report.rejectedShare) : UNKNOWN);
  figure("bounced", rate(events?.rejectedBid));
  figure("confidence", events && events.departures > 0 ? percent(Math.min(1, events.confident / events.departures)) : UNKNOWN);
  figure("chips", chips > 0 ? percent(events.chipsGranted / chips) : UNKNOWN);
  const { latency } = report;
  const calls = latency?.calls;
  figure("response", quantiles(latency?.response));
  figure("execution", quantiles(latency?.execution));
  figure("called", quantiles(latency?.callers));
  for (const key of ["failed", "exhausted", "overflowed", "retried", "refused"]) figure(key, percent(calls?.[key]));
  figure("dispersion", latency?.dispersion ? latency.dispersion.map(rate).join(" / ") : UNKNOWN);
  showCharts(report);
  showParameters(report);
  const table = (table, items, all, make, none, key = (item) => item.proxy) => {
    reconcile(table.body, table.rows, items, key, make);
    const cut = all > items.length ? `The first ${whole.format(items.length)} of ${whole.format(all)}.` : "";
    setText(table.note, all === 0 ? none : cut);
    table.region.hidden = all === 0;
  };
  setText(opened.servers.heading, `Servers ${whole.format(report.serverCount)}`);
  setText(opened.senders.heading, `Senders ${whole.format(report.senderCount)}`);
  table(opened.servers, report.servers, report.serverCount, makeServerRow, "This replica counts no server of it now.");
  setText(opened.callers.heading, `Callers ${whole.format(report.callerCount)}`);
  table(opened.callers, report.callers, report.callerCount, (edge) => makeEdgeRow(edge, false), "No caller has reported calls in the last minute.", (edge) => edge.caller);
  table(opened.senders, report.senderList, report.senderCount, makeSenderRow, "No proxy has asked this replica for the service.");
}

function showCharts(report) {
  if (!report.sparklines || opened.sample === report.sample) return;
  opened.sample = report.sample;
  const { arrivals, inFlight, rejected } = report.sparklines;
  const chart = (title, values, unit, bad) => element("figure", {},
    element("figcaption", {}, element("span", {}, title), element("span", { class: "quiet" }, inWords(values, unit))),
    sparkline([{ values, bad }], `${title}, last 15 minutes: ${inWords(values, unit)}`, true));
  opened.charts.replaceChildren(
    chart("Requests", arrivals, "/s"), chart("In flight", inFlight, " requests"), chart("Rejected", rejected, "/s", true));
}

function showParameters(report) {
  const written = JSON.stringify([report.parameters, report.addresses]);
  if (opened.written === written) return;
  opened.written = written;
  opened.parameters.replaceChildren(...report.parameters.map((parameter) => element("div", {},
    element("dt", {}, parameter.name),
    element("dd", parameter.written ? {} : { class: "quiet" }, parameter.written ? parameter.value : `${parameter.value} (default)`))));
  const { addresses } = report;
  const first = (addresses || []).slice(0, 20).join(", ");
  setText(opened.addresses, addresses
    ? `endpoints: ${whole.format(report.endpoints)}${first ? `, ${first}` : ""}${addresses.length > 20 ? ", …" : ""}`
    : "endpoints: learned from the answers");
}

/** What a proxy runs: the version of its module and its features, and those that it lacks. */
function setModule(cell, { module, features, lacking, unread }) {
  const lacks = lacking.length > 0 ? `; lacks ${lacking.join(", ")}` : "";
  const failed = unread.length > 0 ? `; could not read ${unread.join(", ")}` : "";
  setText(cell, `${module ?? UNKNOWN_VERSION}${features.length > 0 ? `: ${features.join(", ")}` : ""}${lacks}${failed}`);
  setAttribute(cell, "data-tone", failed ? "bad" : lacks ? "warn" : null);
}

function makeServerRow(server) {
  const kinds = { 0: null, 6: "number wide", 8: "number wide", 9: "wide" };
  const cells = Array.from({ length: 11 }, (_, i) => element("td", { class: i in kinds ? kinds[i] : "number" }));
  const row = element("tr", {}, element("th", { scope: "row" }, server.proxy), ...cells);
  function update(server) {
    const events = server.events;
    const rejected = events ? events.rejectedCapacity + events.rejectedDeadline : null;
    setWord(cells[0], server.condition);
    const texts = [
      count(server.queue), server.capacity === null ? "no limit" : count(server.capacity), rate(events?.departures), percent(server.confidence),
      rate(events?.chipsGranted), rate(events?.chipsWithheld), rate(rejected), rate(events?.rejectedBid),
    ];
    texts.forEach((text, i) => setText(cells[i + 1], text));
    setModule(cells[9], server);
    setText(cells[10], ago(server.seen));
    setAttribute(cells[7], "data-tone", rejected > 0 ? "bad" : null);
  }
  return { row, update };
}

function makeSenderRow(sender) {
  const [state, module] = [element("td"), element("td", { class: "wide" })];
  const [version, heard] = [element("td", { class: "number" }), element("td", { class: "number" })];
  const row = element("tr", {}, element("th", { scope: "row" }, sender.proxy), state, version, module, heard);
  function update(sender) {
    setWord(state, sender.state);
    setText(version, sender.version === null ? "none yet" : short(sender.version));
    setModule(module, sender);
    setText(heard, ago(sender.seen));
  }
  return { row, update };
}

/** The service is not there, or not any more. */
function showNoService(name) {
  if (opened?.missing) return;
  opened = { name, missing: true };
  const title = element("h2", { id: "service-title", tabindex: "-1" }, name);
  byId("service-body").replaceChildren(element("div", { class: "title" }, title), element("p", {}, "No such service is in force."));
}
