"use strict";

// Data gets into the page as text only: `make` never parses HTML.

const REFRESH_MILLISECONDS = 5000;
const ROWS = 200;
const PERIODS = [["valid_from", "valid_to"], ["window_start", "window_end"], ["start", "end"]];
const TIME = /^\d{4}-\d\d-\d\dT[\d:.]+Z$/;
const byId = (id) => document.getElementById(id);
let tables = [];
let roots = [];

function make(tag, options = {}, ...children) {
  const svg = ["svg", "rect", "text", "line", "title"].includes(tag);
  const element = svg ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(options)) element.setAttribute(name, value);
  element.append(...children.map((child) => (child instanceof Node ? child : String(child))));
  return element;
}

// Numbers that JavaScript cannot hold stay as they are written.
function parse(text) {
  return JSON.parse(text, (_, value, context) =>
    typeof value === "number" && context && String(value) !== context.source ? context.source : value);
}

async function ask(path) {
  const response = await fetch(path, { headers: { Accept: "application/json" } });
  const body = parse(await response.text());
  if (!response.ok) throw Object.assign(new Error(body.detail), { status: response.status });
  return { body, epoch: response.headers.get("Holdfast-Epoch") };
}

const ofRoot = (path) => `/v1/roots/${encodeURIComponent(byId("root").value)}/${path}`;
const count = (number) => Number(number).toLocaleString("en");

function size(bytes) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  for (; bytes >= 1024 && unit < units.length - 1; unit++) bytes /= 1024;
  return `${unit && bytes < 10 ? bytes.toFixed(1) : Math.round(bytes)} ${units[unit]}`;
}

function age(seconds) {
  const units = [[86400, "d"], [3600, "h"], [60, "min"]];
  const [length, name] = units.find(([length]) => seconds >= 2 * length) ?? [1, "s"];
  return `${Math.floor(seconds / length)} ${name}`;
}

function moment(text) {
  return text.replace("T", " ").replace(/(\.\d*?)0+(?=Z)/, "$1").replace(".Z", "Z");
}

function timeOf(micros) {
  const date = new Date(Number(micros) / 1000);
  return Number.isNaN(date.getTime()) ? `${micros} µs` : moment(date.toISOString());
}

function partitionRow({ partition: number, host, condition, figures }, newest) {
  const cells = [["Partition", number], ["State", condition.text, condition.severity], ["Host", host ?? "–"]];
  if (figures === null) {
    cells.push(...TITLES.slice(cells.length).map(([title]) => [title, "–"]));
  } else {
    const behind = condition.epochs_behind;
    const { stream_time: time, epoch, snapshots, database, unused_rows: unused } = figures;
    const lag = time === null ? 0 : (newest - time) / 1e6;
    cells.push(
      ["Epoch", epoch === null ? "–" : behind > 0 ? `${epoch} (−${behind})` : epoch],
      ["Stream time", time === null ? "–" : timeOf(time) + (lag >= 1 ? ` (−${age(lag)})` : "")],
      ["Rows", count(database.rows)],
      ["Size", size(database.files + database.unflushed)],
      ["Late", count(unused.late + unused.expired), unused.late + unused.expired ? "warn" : ""],
      ["Dropped", count(unused.dropped + unused.far_future), unused.dropped + unused.far_future ? "warn" : ""],
      ["Snapshot", snapshots.age_seconds === null ? "–" : `${age(snapshots.age_seconds)} ago`],
    );
  }
  return make("tr", { role: "row" }, ...cells.map(([title, text, kind = ""], index) =>
    make("td", { role: "cell", "data-title": title, class: `${kind} ${TITLES[index][1]}`.trim() }, text)));
}

const TITLES = [["Partition", ""], ["State", ""], ["Host", ""], ["Epoch", "number"], ["Stream time", ""],
  ["Rows", "number"], ["Size", "number"], ["Late", "number"], ["Dropped", "number"], ["Snapshot", "number"]];

function showPartitions(partitions, final) {
  const names = [...new Set(partitions.map((partition) => partition.operator))];
  const served = partitions.filter((partition) => partition.figures !== null);
  const hosts = new Set(served.map((partition) => partition.host));
  const unanswered = partitions.length - served.length;
  const places = new Set(partitions.map(({ operator, partition }) => `${operator} ${partition}`)).size;
  const sum = (...reasons) => served.reduce((rows, { figures }) =>
    rows + reasons.reduce((rows, reason) => rows + figures.unused_rows[reason], 0), 0);
  const [late, dropped] = [sum("late", "expired"), sum("dropped", "far_future")];
  const blocks = names.map((name) => {
    const own = partitions.filter((partition) => partition.operator === name);
    const newest = Math.max(...own.map(({ figures }) => figures?.stream_time ?? -Infinity));
    const rows = own.map((partition) => partitionRow(partition, newest));
    const kind = tables.find((table) => table.operator === name)?.operator_kind;
    const title = make("h2", {}, name, " ", make("small", {}, kind ?? ""));
    const head = make("tr", { role: "row" }, ...TITLES.map(([title, kind]) =>
      make("th", { role: "columnheader", scope: "col", class: kind }, title)));
    const table = make("table", { class: "partitions", role: "table", "aria-label": `Partitions of ${name}` },
      make("thead", { role: "rowgroup" }, head), make("tbody", { role: "rowgroup" }, ...rows));
    return make("div", { class: "operator" }, title, table);
  });
  byId("operators").replaceChildren(...blocks);
  const tiles = [
    ["Final epoch", final ?? "–", ""],
    ["Hosts that answer", hosts.size, hosts.size ? "" : "bad"],
    ["Partitions that answer", `${places - unanswered} of ${places}`, unanswered ? "bad" : ""],
    ["Rows late", count(late), late ? "warn" : ""],
    ["Rows dropped", count(dropped), dropped ? "warn" : ""],
  ];
  byId("summary").replaceChildren(...tiles.map(([title, text, kind]) =>
    make("div", {}, make("dt", {}, title), make("dd", { class: kind }, text))));
}

function show(id, text) {
  byId(id).textContent = text;
  byId(id).hidden = !text;
}

async function refresh() {
  const root = byId("root").value;
  try {
    const [listed, partitions] = await Promise.all([ask(ofRoot("tables")), ask(ofRoot("partitions"))]);
    if (root !== byId("root").value) return;
    const isOther = JSON.stringify(tables) !== JSON.stringify(listed.body);
    tables = listed.body;
    if (isOther) showTables();
    showPartitions(partitions.body, partitions.epoch);
    byId("updated").textContent = `as of ${new Date().toISOString().slice(11, 19)}Z`;
    show("problem", "");
  } catch (error) {
    show("problem", `Not refreshed: ${error.message}`);
  }
}

// The next refresh begins after the last one has ended: a slow gateway does not get more to do.
async function refreshAgain() {
  if (byId("live").checked && !document.hidden) await refresh();
  setTimeout(refreshAgain, REFRESH_MILLISECONDS);
}

const chosen = () => tables.find((table) => table.name === byId("table").value);

function showTables() {
  const before = byId("table").value;
  byId("table").replaceChildren(...tables.map((table) => make("option", { value: table.name }, table.name)));
  if (tables.some((table) => table.name === before)) byId("table").value = before;
  showKey();
}

// What a person writes for a value of a type.
function written(type) {
  const words = { Utf8: "text", LargeUtf8: "text", Binary: "hexadecimal", Boolean: "true or false", Date32: "date" };
  if (/Int|Float|Decimal/.test(type)) return "number";
  return words[type] ?? (type.startsWith("Timestamp") ? "time with zone" : type);
}

function showKey() {
  const table = chosen();
  const fields = (table?.key ?? []).map((name, index) => {
    const type = table.columns.find((column) => column.name === name)?.type ?? "";
    const input = make("input", { id: `key-${index}`, autocomplete: "off", spellcheck: "false" });
    return make("p", { class: "field" }, make("label", { for: `key-${index}` }, `${name} (${written(type)})`), input);
  });
  byId("key").replaceChildren(...fields);
  byId("about-table").textContent = table
    ? `${table.kind.replaceAll("_", " ")} table of ${table.operator} (${table.operator_kind}): ` +
      table.columns.map((column) => column.name).join(", ")
    : "No table can be read.";
  show("found", "");
  byId("result").replaceChildren();
}

function cellText(value) {
  if (value === null || value === undefined) return "–";
  if (typeof value === "object") return JSON.stringify(value);
  return TIME.test(value) ? moment(value) : String(value);
}

function rowsTable(rows, names) {
  const head = make("tr", {}, ...names.map((name) => make("th", { scope: "col" }, name)));
  const body = rows.map((row) => make("tr", {}, ...names.map((name) => make("td", { class: TIME.test(row[name]) ? "time" : "" }, cellText(row[name])))));
  const table = make("table", {}, make("thead", {}, head), make("tbody", {}, ...body));
  return make("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Rows" }, table);
}

// Versions, windows or sessions as bars on a line of time. The table below has the same as text.
function timeLine(rows, [from, to], values) {
  const spans = rows.map((row) => [Date.parse(row[from]), row[to] ? Date.parse(row[to]) : null]);
  if (spans.some(([start]) => Number.isNaN(start))) return "";
  const width = Math.max(260, byId("result").clientWidth);
  const first = Math.min(...spans.map(([start]) => start));
  const last = Math.max(...spans.flat().filter((time) => time !== null));
  // The bar of a version that is still valid extends beyond the last time.
  const end = spans.some(([, end]) => end === null) ? last + Math.max((last - first) / 5, 1000) : last;
  const place = (time) => ((time - first) / Math.max(end - first, 1)) * width;
  const parts = spans.map(([start, stop], index) => {
    const [left, right] = [place(start), place(stop ?? end)];
    const now = stop === null ? " now" : "";
    const text = cellText(rows[index][values[0]]);
    const about = `${moment(rows[index][from])} to ${stop === null ? "now" : moment(rows[index][to])}: ` +
      values.map((name) => `${name} ${cellText(rows[index][name])}`).join(", ");
    const length = Math.max(right - left - 2, 2);
    const bar = make("rect", { class: `bar${now}`, x: left, y: 4, width: length, height: 30, rx: 3 },
      make("title", {}, about));
    const fits = values.length > 0 && text.length * 8 + 10 < length;
    return fits ? [bar, make("text", { class: `inside${now}`, x: left + 7, y: 24 }, text)] : [bar];
  });
  const axis = make("line", { x1: 0, x2: width, y1: 40, y2: 40 });
  const labels = [make("text", { x: 0, y: 56 }, moment(new Date(first).toISOString()))];
  const isOpen = end !== last;
  labels.push(make("text", { x: width, y: 56, "text-anchor": "end" }, isOpen ? "still valid" : moment(new Date(end).toISOString())));
  const label = `${rows.length} periods from ${moment(new Date(first).toISOString())}`;
  return make("svg", { viewBox: `0 0 ${width} 62`, role: "img", "aria-label": label }, ...parts.flat(), axis, ...labels);
}

async function answer(path, none) {
  try {
    const { body, epoch } = await ask(ofRoot(`tables/${encodeURIComponent(chosen().name)}/${path}`));
    const rows = Array.isArray(body) ? body : [body];
    const more = rows.length === ROWS ? `: the first ${ROWS}, there may be more` : "";
    show("found", rows.length ? `${rows.length === 1 ? "1 row" : `${rows.length} rows`} of epoch ${epoch}${more}` : `${none} in epoch ${epoch}`);
    return rows;
  } catch (error) {
    show("found", error.status === 404 ? none : `Not read: ${error.message}`);
    return [];
  }
}

async function lookUp(event) {
  event.preventDefault();
  const table = chosen();
  const key = table.key.map((_, index) => byId(`key-${index}`).value);
  const path = key.map(encodeURIComponent).join("/");
  const bound = (name) => key.map((value) => `${name}=${encodeURIComponent(value)}`).join("&");
  const isVersioned = table.kind === "versioned";
  const hasPeriods = isVersioned || /window|session/.test(table.kind);
  const rows = await answer(
    isVersioned ? `versions/${path}?limit=${ROWS}`
      : hasPeriods ? `scan?${bound("start")}&${bound("end")}&limit=${ROWS}` : `rows/${path}`,
    "There is no row of this key");
  const names = table.columns.map((column) => column.name);
  const values = names.filter((name) => !table.key.includes(name));
  const period = PERIODS.find(([from, to]) => names.includes(from) && names.includes(to));
  const parts = [];
  if (rows.length > 0 && period && hasPeriods) {
    parts.push(timeLine(rows, period, values.filter((name) => !period.includes(name))), rowsTable(rows, names));
  } else if (rows.length > 1) {
    parts.push(rowsTable(rows, names));
  } else if (rows.length > 0) {
    parts.push(make("dl", { class: "row" }, ...names.map((name) =>
      make("div", {}, make("dt", {}, name), make("dd", {}, cellText(rows[0][name]))))));
  }
  byId("result").replaceChildren(...parts);
}

async function firstRows() {
  const rows = await answer("scan?limit=20", "There are no rows");
  const names = chosen().columns.map((column) => column.name);
  byId("result").replaceChildren(...(rows.length ? [rowsTable(rows, names)] : []));
}

async function changeRoot() {
  byId("address").textContent = roots.find((one) => one.name === byId("root").value)?.address ?? "";
  await refresh();
}

async function start() {
  byId("lookup-form").addEventListener("submit", lookUp);
  byId("first-rows").addEventListener("click", firstRows);
  byId("refresh").addEventListener("click", refresh);
  byId("table").addEventListener("change", showKey);
  byId("root").addEventListener("change", changeRoot);
  try {
    roots = (await ask("/v1/roots")).body;
  } catch (error) {
    show("problem", `The gateway does not answer: ${error.message}`);
    return;
  }
  byId("root").replaceChildren(...roots.map((root) => make("option", { value: root.name }, root.name)));
  byId("root-choice").hidden = roots.length < 2;
  await changeRoot();
  setTimeout(refreshAgain, REFRESH_MILLISECONDS);
}

start();
