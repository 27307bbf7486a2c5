"use strict";

// Data gets into the page as text only: `make` never parses HTML.

const REFRESH_MILLISECONDS = 5000;
const ROWS = 200;
const PERIODS = [["valid_from", "valid_to"], ["window_start", "window_end"], ["session_start", "session_end"]];
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

// What ails a partition: a word, and how bad it is.
function ailment(partition, behind) {
  if (partition.is_busy) return ["opens or restores", "warn"];
  if (partition.snapshots.rebuilds > 0) return [`rebuilt ${partition.snapshots.rebuilds} times: look at the disk`, "bad"];
  if (behind > 1) return [`${count(behind)} epochs behind`, "warn"];
  if (partition.snapshots.is_uploading) return ["uploads a snapshot", "good"];
  return ["in order", "good"];
}

function partitionRow(number, host, partition, final, newest) {
  const cells = [["Partition", number]];
  if (partition === null) {
    cells.push(["State", "no host answers", "bad"], ["Host", "–"], ...TITLES.slice(3).map(([title]) => [title, "–"]));
  } else {
    const behind = final === null || partition.epoch === null ? 0 : final - partition.epoch;
    const [word, kind] = ailment(partition, behind);
    const unused = partition.unused_rows;
    const { stream_time: time, snapshots, database } = partition;
    const lag = time === null ? 0 : (newest - time) / 1e6;
    cells.push(
      ["State", word, kind],
      ["Host", host.host],
      ["Epoch", partition.epoch === null ? "–" : behind > 0 ? `${partition.epoch} (−${behind})` : partition.epoch],
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

function showPartitions(hosts, final) {
  const root = roots.find((one) => one.name === byId("root").value);
  const found = hosts.flatMap((host) => host.partitions.map((partition) => ({ host, partition })));
  const names = [...new Set([...tables.map((table) => table.operator), ...found.map((one) => one.partition.operator)])];
  let [answering, late, dropped] = [0, 0, 0];
  const blocks = names.map((name) => {
    const own = found.filter((one) => one.partition.operator === name);
    const newest = Math.max(...own.map((one) => one.partition.stream_time ?? -Infinity));
    const rows = [];
    for (let number = 0; number < root.partitions; number++) {
      const here = own.filter((one) => one.partition.partition === number);
      answering += here.length > 0;
      if (here.length === 0) rows.push(partitionRow(number, null, null));
      for (const { host, partition } of here) {
        const unused = partition.unused_rows;
        late += unused.late + unused.expired;
        dropped += unused.dropped + unused.far_future;
        rows.push(partitionRow(number, host, partition, final, newest));
      }
    }
    const kind = tables.find((table) => table.operator === name)?.operator_kind;
    const title = make("h2", {}, name, " ", make("small", {}, kind ?? ""));
    const head = make("tr", { role: "row" }, ...TITLES.map(([title, kind]) =>
      make("th", { role: "columnheader", scope: "col", class: kind }, title)));
    const table = make("table", { class: "partitions", role: "table", "aria-label": `Partitions of ${name}` },
      make("thead", { role: "rowgroup" }, head), make("tbody", { role: "rowgroup" }, ...rows));
    return make("div", { class: "operator" }, title, table);
  });
  byId("operators").replaceChildren(...blocks);
  const all = names.length * root.partitions;
  const tiles = [
    ["Final epoch", final ?? "–", ""],
    ["Hosts that answer", hosts.length, hosts.length ? "" : "bad"],
    ["Partitions that answer", `${answering} of ${all}`, answering < all ? "bad" : ""],
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
    const [listed, hosts] = await Promise.all([ask(ofRoot("tables")), ask(ofRoot("hosts"))]);
    if (root !== byId("root").value) return;
    const isOther = JSON.stringify(tables) !== JSON.stringify(listed.body);
    tables = listed.body;
    if (isOther) showTables();
    showPartitions(hosts.body, hosts.epoch === null ? null : Number(hosts.epoch));
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
  const last = Math.max(...spans.flat());
  // What is still valid goes on for a while.
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
