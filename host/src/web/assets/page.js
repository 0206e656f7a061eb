"use strict";
// The status page of sluice. It polls /api/status, shows what it says and
// nothing else, and says so loudly when no answer comes.

// Worst first: the order of the counts, and of the rows unless another is asked for.
const STATES = [
  ["failed", "failed"],
  ["retrying", "retrying"],
  ["falling_behind", "falling behind"],
  ["capture_stalled", "capture stalled"],
  ["behind", "behind"],
  ["starting", "starting"],
  ["standby", "standing by"],
  ["current", "current"],
  ["ended", "ended"],
];
const WORD = new Map(STATES);
const RANK = new Map(STATES.map(([state], i) => [state, i]));
// These do not mend by waiting; "behind" and "starting" mostly do.
const WANTS_ATTENTION = ["failed", "retrying", "falling_behind", "capture_stalled"];
// A state of a newer server is shown as it is called, above the healthy ones.
const wordOf = (state) => WORD.get(state) ?? state;
const rankOf = (state) => RANK.get(state) ?? 4.5;

const POLL_MS = 2000;
const HISTORY_MS = 10000;
const PAGE_ROWS = 100;
const HISTORY_POINTS = 360;
// Hours of retention left below which a table is marked, and below which it is urgent.
const HEADROOM_SHORT = 12;
const HEADROOM_URGENT = 3;
// Sparklines never magnify less than this, or every idle table would look like a mountain range.
const LAG_FLOOR = 10;
const RATE_FLOOR = 1;
// Servers and proxies commonly refuse request lines beyond 8 kB.
const URL_CHARS = 4000;
// After a touch of the table its rows keep their places this long, so that none jumps away from under the pointer.
const HOLD_MS = 3000;

const byId = (id) => document.getElementById(id);

// ---- building nodes -------------------------------------------------------

function make(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

function makeSvg(tag, attributes = {}, ...children) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

// The setters below touch the page only where something changed: no flicker, no lost selection, little work.
function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

function setAttribute(node, name, value) {
  if (value === null) node.removeAttribute(name);
  else if (node.getAttribute(name) !== value) node.setAttribute(name, value);
}

function setTime(node, at, now, prefix = "", suffix = "") {
  setText(node, at ? prefix + clock(at, now) + suffix : "");
  setAttribute(node, "datetime", at);
  setAttribute(node, "title", at);
}

function mark(state = "other") {
  const use = makeSvg("use", { href: `#m-${state}` });
  const node = makeSvg("svg", { class: "mark", "aria-hidden": "true" }, use);
  node.show = (name) => setAttribute(use, "href", `#m-${WORD.has(name) ? name : "other"}`);
  return node;
}

// ---- writing numbers ------------------------------------------------------

const whole = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });
const tenths = new Intl.NumberFormat("en-US", { minimumFractionDigits: 1, maximumFractionDigits: 1 });
const NONE = "–";

function duration(seconds) {
  if (seconds === null || seconds === undefined) return NONE;
  const s = Math.max(0, seconds);
  if (s < 9.95) return `${tenths.format(s)} s`;
  if (s < 120) return `${Math.round(s)} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min`;
  if (s < 172800) return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`;
  return `${Math.floor(s / 86400)} d ${Math.floor((s % 86400) / 3600)} h`;
}

function ago(at, now) {
  const seconds = (Date.parse(now) - Date.parse(at)) / 1000;
  if (seconds < 0) return `in ${duration(-seconds)}`;
  return seconds < 120 ? `${Math.floor(seconds)} s ago` : `${duration(seconds)} ago`;
}

function clock(at, now) {
  const date = new Date(at);
  if (Number.isNaN(date.getTime())) return String(at);
  const text = date.toISOString();
  const today = new Date(now).toISOString().slice(0, 10);
  return text.startsWith(today) ? text.slice(11, 19) : `${text.slice(0, 10)} ${text.slice(11, 16)}`;
}

function rate(value) {
  if (value === null || value === undefined) return NONE;
  if (value > 0 && value < 0.05) return "< 0.1";
  if (value > 0 && value < 10) return tenths.format(value);
  return value < 1e6 ? whole.format(value) : `${tenths.format(value / 1e6)} M`;
}

function bytes(value) {
  if (value === null || value === undefined) return NONE;
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let i = 0;
  for (; value >= 1024 && i < units.length - 1; i++) value /= 1024;
  return `${i > 0 && value < 10 ? tenths.format(value) : whole.format(value)} ${units[i]}`;
}

function headroom(hours) {
  if (hours === null || hours === undefined) return NONE;
  if (hours <= 0) return "none";
  if (hours < 1) return `${Math.ceil(hours * 60)} min`;
  return hours < 10 ? `${tenths.format(hours)} h` : `${whole.format(hours)} h`;
}

function isShort(table) {
  // A table that has read all there is loses nothing, however young the oldest change that is left.
  return table.lag_seconds > 0 && table.headroom_hours !== null && table.headroom_hours < HEADROOM_SHORT;
}

const some = (n, one, more) => `${whole.format(n)} ${n === 1 ? one : more}`;

// ---- sparklines -----------------------------------------------------------

// The path of a series in a box of `width` by `height`, the newest point at the right edge. Several points
// that fall on one column are drawn as their largest, so that no spike is lost; a null makes a gap.
function trace(values, width, height, top) {
  const columns = Math.min(width, HISTORY_POINTS);
  const each = HISTORY_POINTS / columns;
  const shift = HISTORY_POINTS - values.length;
  const highest = new Array(columns).fill(null);
  values.forEach((value, i) => {
    if (value === null) return;
    const c = Math.min(columns - 1, Math.floor((i + shift) / each));
    if (c >= 0 && (highest[c] === null || value > highest[c])) highest[c] = value;
  });
  let line = "";
  let area = "";
  let from = null;
  const y = (v) => (height - 1 - Math.min(1, Math.max(0, v / top)) * (height - 2)).toFixed(1);
  for (let c = 0; c <= columns; c++) {
    const value = c < columns ? highest[c] : null;
    const x = (((c + 0.5) * width) / columns).toFixed(1);
    if (value !== null) {
      const point = `${x} ${y(value)}`;
      if (from === null) { line += `M${point}h.01`; area += `M${x} ${height}L${point}`; from = x; }
      else { line += `L${point}`; area += `L${point}`; }
    } else if (from !== null) {
      const last = (((c - 0.5) * width) / columns).toFixed(1);
      area += `L${last} ${height}Z`;
      from = null;
    }
  }
  return { line, area };
}

class Spark {
  constructor(width, height, floor) {
    Object.assign(this, { width, height, floor });
    this.area = makeSvg("path", { class: "area" });
    this.line = makeSvg("path", { class: "line" });
    this.node = makeSvg("svg", {
      class: "spark", viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "none", "aria-hidden": "true",
    }, this.area, this.line);
  }

  draw(values) {
    this.top = Math.max(this.floor, ...values);
    const { line, area } = trace(values, this.width, this.height, this.top);
    setAttribute(this.line, "d", line);
    setAttribute(this.area, "d", area);
  }
}

// The same at full size, with its scale, for the details of a table.
class Chart {
  constructor(title, floor, format) {
    this.spark = new Spark(360, 64, floor);
    this.format = format;
    this.most = make("span");
    this.from = make("time");
    this.to = make("time");
    this.node = make("figure", {},
      make("figcaption", {}, make("b", {}, title), this.most), this.spark.node,
      make("p", { class: "axis" }, this.from, this.to));
  }

  draw(values, step, endsAt) {
    this.spark.draw(values);
    const known = values.filter((v) => v !== null);
    setText(this.most, known.length ? `at most ${this.format(Math.max(...known))}` : "nothing recorded yet");
    // The drawn width always is the full span, however young the process.
    const from = new Date(Date.parse(endsAt) - (HISTORY_POINTS - 1) * step * 1000).toISOString();
    setTime(this.from, from, endsAt);
    setTime(this.to, endsAt, endsAt);
  }
}

// ---- what is looked at: filters, order, page --------------------------------

// Of each column: its name, how to compare by it (nulls always go last), and the direction a first click gives.
const COLUMNS = [
  { key: "state", title: "State", value: (t) => -rankOf(t.state), first: "descending" },
  { key: "name", title: "Table", value: (t) => t.capture_instance, first: "ascending" },
  { key: "lag", title: "Lag", value: (t) => t.lag_seconds, first: "descending" },
  { key: "until", title: "Complete until", value: (t) => t.finalized_until && Date.parse(t.finalized_until), first: "ascending" },
  { key: "rate", title: "Rows/s", value: (t) => t.rows_per_second, first: "descending" },
  { key: "headroom", title: "Headroom", value: (t) => t.headroom_hours, first: "ascending",
    about: "How long until the source's retention removes changes that this table has not read" },
  { key: "quarantine", title: "Quarantine", value: (t) => t.open_quarantined, first: "descending",
    about: "Rows set aside and not yet dealt with" },
  { key: "error", title: "Last error", value: (t) => t.error_at && Date.parse(t.error_at), first: "descending" },
];

const view = { states: new Set(), query: "", quarantine: false, headroom: false, sort: "state", direction: "descending", page: 0 };

// The view is kept in the address, so that it outlives a reload and can be sent to a colleague.
function readAddress() {
  const given = new URLSearchParams(location.hash.slice(1));
  view.states = new Set((given.get("state") ?? "").split(",").filter((s) => WORD.has(s)));
  view.query = given.get("q") ?? "";
  view.quarantine = given.has("quarantine");
  view.headroom = given.has("headroom");
  const column = COLUMNS.find((c) => c.key === given.get("sort")) ?? COLUMNS[0];
  view.sort = column.key;
  view.direction = ["ascending", "descending"].find((d) => d === given.get("order")) ?? column.first;
  view.page = 0;
}

function writeAddress() {
  const now = new URLSearchParams();
  if (view.states.size) now.set("state", [...view.states].join(","));
  if (view.query) now.set("q", view.query);
  if (view.quarantine) now.set("quarantine", "1");
  if (view.headroom) now.set("headroom", "1");
  if (view.sort !== "state" || view.direction !== "descending") {
    now.set("sort", view.sort);
    now.set("order", view.direction);
  }
  const hash = now.toString();
  history.replaceState(null, "", hash ? `#${hash}` : location.pathname);
}

function matches(table, words) {
  if (view.states.size && !view.states.has(table.state)) return false;
  if (view.quarantine && !table.open_quarantined) return false;
  if (view.headroom && !isShort(table)) return false;
  if (!words.length) return true;
  const text = [table.capture_instance, table.target, table.group, wordOf(table.state), table.error_kind, table.error]
    .join("\n").toLowerCase();
  return words.every((word) => text.includes(word));
}

const collator = new Intl.Collator("en", { numeric: true });
const compareNames = (a, b) => collator.compare(a.capture_instance, b.capture_instance);

function compare(a, b) {
  const column = COLUMNS.find((c) => c.key === view.sort);
  const sign = view.direction === "ascending" ? 1 : -1;
  if (view.sort === "name") return sign * compareNames(a, b);
  const x = column.value(a);
  const y = column.value(b);
  if (x !== y) {
    if (x === null) return 1;
    if (y === null) return -1;
    return sign * (x < y ? -1 : 1);
  }
  // Among equals first those that lose data soonest, then those with rows set aside. The lag has no say: it changes
  // with each answer, and rows that trade places all the time cannot be read.
  return isShort(b) - isShort(a) || (b.open_quarantined > 0) - (a.open_quarantined > 0) || compareNames(a, b);
}

// ---- one table: a row, and its details while open ---------------------------

const opened = new Set();

class Row {
  constructor(name) {
    this.name = name;
    this.id = `t${Row.made++}`;
    this.series = null;
    const cell = (kind, label, ...children) => make("td", { class: kind, role: "cell", "data-label": label }, ...children);
    this.mark = mark();
    this.word = make("span", { class: "word" });
    this.why = make("span", { class: "why" });
    this.label = make("bdi");
    this.button = make("button", { type: "button", class: "open", "aria-expanded": "false" },
      makeSvg("svg", { class: "chevron", viewBox: "0 0 10 10", "aria-hidden": "true" }, makeSvg("path", { d: "M3 1.5L7 5 3 8.5" })),
      this.label);
    this.group = make("span", { class: "tag" });
    this.lag = make("span", { class: "number" });
    this.lagSpark = new Spark(72, 18, LAG_FLOOR);
    this.until = make("time");
    this.ago = make("span", { class: "ago" });
    this.rate = make("span", { class: "number" });
    this.rateSpark = new Spark(72, 18, RATE_FLOOR);
    this.headroom = make("span", { class: "number" });
    this.quarantine = make("span", { class: "number" });
    this.kind = make("span", { class: "kind" });
    this.first = make("span", { class: "first" });
    this.node = make("tr", { role: "row" },
      cell("state", "State", this.mark, make("span", {}, this.word, this.why)),
      make("th", { class: "name", scope: "row", role: "rowheader" }, make("div", {}, this.button, this.group)),
      cell("lag", "lag", this.lagSpark.node, this.lag),
      cell("until", "complete until", this.until, this.ago),
      cell("rate", "rows/s", this.rateSpark.node, this.rate),
      cell("headroom", "headroom", this.headroom),
      cell("quarantine", "quarantine", this.quarantine),
      cell("error", "last error", this.kind, this.first));
    this.node.row = this;
    this.details = null;
    // A long name breaks after an underscore where it can.
    for (const part of name.split(/(?<=_)/)) this.label.append(part, make("wbr"));
    this.button.addEventListener("click", () => this.toggle());
    this.node.addEventListener("click", (event) => {
      // A click anywhere on the row opens it, unless it ended the selecting of text.
      if (!event.target.closest("button") && getSelection().isCollapsed) this.toggle();
    });
  }

  toggle() {
    if (!opened.delete(this.name)) opened.add(this.name);
    render();
    if (opened.has(this.name)) fetchHistorySoon();
  }

  update(table, now) {
    setAttribute(this.node, "data-state", table.state);
    this.node.classList.toggle("is-open", opened.has(this.name));
    this.mark.show(table.state);
    setText(this.word, wordOf(table.state));
    setText(this.why, table.reason ? `mostly in ${table.reason}` : "");
    setAttribute(this.button, "aria-expanded", String(opened.has(this.name)));
    setText(this.group, table.group ?? "");
    setText(this.lag, duration(table.lag_seconds));
    setTime(this.until, table.finalized_until, now);
    if (!table.finalized_until) setText(this.until, NONE);
    setText(this.ago, table.finalized_until ? ago(table.finalized_until, now) : "");
    setText(this.rate, rate(table.rows_per_second));
    setAttribute(this.rate, "data-level", table.rows_per_second === 0 ? "nil" : null);
    setText(this.headroom, headroom(table.headroom_hours));
    setAttribute(this.headroom, "data-level", !isShort(table) ? null : table.headroom_hours < HEADROOM_URGENT ? "urgent" : "short");
    setText(this.quarantine, table.open_quarantined === null ? NONE : whole.format(table.open_quarantined));
    setAttribute(this.quarantine, "data-level", table.open_quarantined > 0 ? "short" : "nil");
    setText(this.kind, table.error === null ? "" : table.error_kind ?? "");
    setText(this.first, table.error === null ? "" : table.error.split("\n", 1)[0].slice(0, 300));
    this.node.classList.toggle("has-error", table.error !== null);
    if (opened.has(this.name)) {
      this.details ??= new Details(this);
      this.details.update(table, now);
    } else if (this.details) {
      this.details.node.remove();
      this.details = null;
    }
    setAttribute(this.button, "aria-controls", this.details ? this.details.node.id : null);
  }

  draw(series, step, endsAt) {
    this.series = { series, step, endsAt };
    this.lagSpark.draw(series.lag_seconds);
    this.rateSpark.draw(series.rows_per_second);
    this.details?.draw();
  }
}
Row.made = 0;

class Details {
  constructor(row) {
    this.row = row;
    this.errorHead = make("h3");
    this.errorAt = make("time");
    this.errorAgo = make("span", { class: "ago" });
    this.errorText = make("pre", { tabindex: "0", "aria-label": "Error in full" });
    this.hint = make("p", { class: "hint" });
    this.problem = make("section", { class: "problem" },
      make("header", {}, this.errorHead, this.errorAt, this.errorAgo), this.errorText, this.hint);
    this.facts = new Map();
    this.list = make("dl", { class: "facts" });
    this.lag = new Chart("Lag", LAG_FLOOR, duration);
    this.rate = new Chart("Rows per second", RATE_FLOOR, rate);
    this.node = make("tr", { class: "details", role: "row", id: `${row.id}-details` },
      make("td", { colspan: COLUMNS.length, role: "cell" },
        make("div", { class: "inside" }, this.problem,
          make("div", { class: "charts" }, this.lag.node, this.rate.node), this.list)));
    this.draw();
  }

  fact(title, text, at = null) {
    let value = this.facts.get(title);
    if (!value) {
      value = make("dd");
      this.facts.set(title, value);
      this.list.append(make("div", {}, make("dt", {}, title), value));
    }
    setText(value, text);
    setAttribute(value, "title", at);
  }

  update(table, now) {
    this.problem.hidden = table.error === null;
    if (table.error !== null) {
      setText(this.errorHead, table.error_kind ? `Error: ${table.error_kind}` : "Error");
      setTime(this.errorAt, table.error_at, now);
      setText(this.errorAgo, table.error_at ? ago(table.error_at, now) : "");
      setText(this.errorText, table.error);
      setText(this.hint, table.hint ?? "");
      this.hint.hidden = table.hint === null;
    }
    setAttribute(this.problem, "data-state", table.state);
    this.fact("Target", table.target);
    this.fact("Group", table.group ?? NONE);
    this.fact("Weight", String(table.weight));
    this.fact("Through", table.through.length ? table.through.join(" → ") : NONE);
    this.fact("Rows since start", whole.format(table.rows));
    this.fact("Batch", table.batch_id === null ? NONE : whole.format(table.batch_id));
    this.fact("Last commit written", table.end_commit_ts ? clock(table.end_commit_ts, now) : NONE, table.end_commit_ts);
    this.fact("Up to LSN", table.end_lsn ?? NONE);
  }

  draw() {
    if (!this.row.series) return;
    const { series, step, endsAt } = this.row.series;
    this.lag.draw(series.lag_seconds, step, endsAt);
    this.rate.draw(series.rows_per_second, step, endsAt);
  }
}

// ---- the whole page ---------------------------------------------------------

let latest = null;
const rows = new Map(); // the rows of the page of tables shown, by name
const inSight = new Set(); // those of them on the screen
let heldUntil = 0;
let shownNames = [];

const sight = new IntersectionObserver((entries) => {
  for (const entry of entries) {
    if (entry.isIntersecting) inSight.add(entry.target.row);
    else inSight.delete(entry.target.row);
  }
  if ([...inSight].some((row) => !row.series)) fetchHistorySoon();
}, { rootMargin: "100px 0px" });

// The names of the tables to show on this page, in order; `keep` leaves those shown now where they are.
function choose(keep) {
  const words = view.query.toLowerCase().split(/\s+/).filter(Boolean);
  const found = latest.tables.filter((table) => matches(table, words));
  const pages = Math.max(1, Math.ceil(found.length / PAGE_ROWS));
  view.page = Math.min(view.page, pages - 1);
  if (!keep) {
    found.sort(compare);
    shownNames = found.slice(view.page * PAGE_ROWS, (view.page + 1) * PAGE_ROWS).map((t) => t.capture_instance);
  }
  return { total: found.length, pages };
}

function renderTable(keep) {
  const byName = new Map(latest.tables.map((t) => [t.capture_instance, t]));
  const { total, pages } = choose(keep);
  const names = shownNames.filter((name) => byName.has(name));

  const focused = document.activeElement;
  const focusedAt = [...byId("rows").querySelectorAll(".open")].indexOf(focused);
  const staying = new Set(names);
  for (const [name, row] of rows) {
    if (staying.has(name)) continue;
    sight.unobserve(row.node);
    inSight.delete(row);
    row.details?.node.remove();
    row.node.remove();
    rows.delete(name);
  }

  const body = byId("rows");
  let next = body.firstChild;
  const place = (node) => {
    if (node === next) next = next.nextSibling;
    else body.insertBefore(node, next);
  };
  for (const name of names) {
    let row = rows.get(name);
    if (!row) {
      row = new Row(name);
      rows.set(name, row);
      sight.observe(row.node);
    }
    // Whatever update() takes away must not be the node to insert before.
    if (row.details && !opened.has(name) && next === row.details.node) next = next.nextSibling;
    row.update(byName.get(name), latest.now);
    place(row.node);
    if (row.details) place(row.details.node);
  }
  // A node that is moved or taken away loses the focus: it gets it back, or else the row now in its place.
  if (focused !== document.activeElement) {
    const heir = focused.isConnected ? focused : rows.get(names[Math.min(focusedAt, names.length - 1)])?.button;
    heir?.focus({ preventScroll: true });
  }

  byId("table").hidden = !names.length;
  byId("none").hidden = names.length > 0;
  byId("clear").hidden = !latest.tables.length;
  for (const pager of pagers) pager.update(total, pages);
}

class Pager {
  constructor(node) {
    this.node = node;
    this.text = make("span");
    this.back = make("button", { type: "button", "aria-label": "Previous page" }, "‹");
    this.on = make("button", { type: "button", "aria-label": "Next page" }, "›");
    node.append(this.text, this.back, this.on);
    const turn = (by) => {
      view.page += by;
      heldUntil = 0;
      render();
      byId("table").scrollIntoView({ block: "start" });
    };
    this.back.addEventListener("click", () => turn(-1));
    this.on.addEventListener("click", () => turn(1));
  }

  update(total, pages) {
    const from = view.page * PAGE_ROWS;
    const all = latest.tables.length;
    const of = total === all ? whole.format(all) : `${whole.format(total)} found, ${whole.format(all)} in all`;
    setText(this.text, total === 0 ? "" : `${whole.format(from + 1)}–${whole.format(Math.min(total, from + PAGE_ROWS))} of ${of}`);
    this.back.hidden = this.on.hidden = pages < 2;
    if (this.node.id === "pager-end") this.node.hidden = pages < 2;
    this.back.disabled = view.page === 0;
    this.on.disabled = view.page >= pages - 1;
  }
}

const pagers = [new Pager(byId("pager-top")), new Pager(byId("pager-end"))];

function renderVerdict() {
  const { counts, tables } = latest;
  const count = (state) => counts[state] ?? 0;
  const failed = count("failed");
  const attention = WANTS_ATTENTION.reduce((sum, state) => sum + count(state), 0);
  const all = tables.length;
  const list = (states) => states.filter(count).map((s) => `${whole.format(count(s))} ${wordOf(s)}`).join(", ");
  let worst = "current";
  let text;
  let more;
  if (failed) {
    worst = "failed";
    text = `${whole.format(failed)} of ${some(all, "table", "tables")} ${failed === 1 ? "has" : "have"} failed`;
    const kinds = new Map();
    for (const t of tables) if (t.state === "failed") kinds.set(t.error_kind ?? "unknown", (kinds.get(t.error_kind ?? "unknown") ?? 0) + 1);
    const ofKinds = [...kinds].sort((a, b) => b[1] - a[1]).map(([kind, n]) => (failed === 1 ? kind : `${n} ${kind}`)).join(", ");
    const rest = list([...WANTS_ATTENTION.slice(1)]);
    more = ofKinds + (rest ? `; also ${rest}` : "");
  } else if (attention) {
    worst = WANTS_ATTENTION.find(count);
    text = `${whole.format(attention)} of ${some(all, "table", "tables")} ${attention === 1 ? "needs" : "need"} attention`;
    more = list(WANTS_ATTENTION);
  } else if (all === 0) {
    worst = "ended";
    text = "This process holds no table";
    more = "";
  } else {
    const late = count("behind") + count("starting");
    if (late) worst = count("behind") ? "behind" : "starting";
    text = late ? "No table has failed" : count("current") === all ? (all === 1 ? "The table is current" : `All ${whole.format(all)} tables are current`) : "Nothing needs attention";
    more = count("current") === all ? "" : list(["behind", "starting", "current", "ended"]);
  }
  setAttribute(byId("verdict"), "data-state", worst);
  setAttribute(byId("verdict-mark"), "href", `#m-${worst}`);
  setText(byId("verdict-text"), text);
  setText(byId("verdict-more"), more);
  return { worst, short: failed ? `${whole.format(failed)} failed` : attention ? `${whole.format(attention)} need attention` : "" };
}

const countButtons = new Map();

function buildCounts() {
  const add = (state, word) => {
    const number = make("span", { class: "n" });
    const sign = mark(state);
    sign.show(state);
    const button = make("button", { type: "button", "data-state": state, "aria-pressed": "false" },
      number, make("span", { class: "word" }, ...(state === "all" ? [] : [sign]), word));
    button.addEventListener("click", () => {
      if (state === "all") view.states.clear();
      else if (!view.states.delete(state)) view.states.add(state);
      changeView();
    });
    byId("counts").append(button);
    countButtons.set(state, { button, number });
  };
  add("all", "tables");
  STATES.forEach(([state, word]) => add(state, word));
}

function renderCounts() {
  for (const [state, { button, number }] of countButtons) {
    const n = state === "all" ? latest.tables.length : latest.counts[state] ?? 0;
    setText(number, whole.format(n));
    button.classList.toggle("zero", n === 0);
    setAttribute(button, "aria-pressed", String(state === "all" ? view.states.size === 0 : view.states.has(state)));
  }
  const flag = (id, on, n, text, title) => {
    setAttribute(byId(id), "title", title);
    setText(byId(id), `${whole.format(n)} ${text}`);
    byId(id).classList.toggle("zero", n === 0);
    setAttribute(byId(id), "aria-pressed", String(on));
  };
  flag("flag-quarantine", view.quarantine, latest.tables.filter((t) => t.open_quarantined > 0).length, "with quarantine", "Only tables with rows in quarantine");
  flag("flag-headroom", view.headroom, latest.tables.filter(isShort).length, "short of headroom",
    `Only tables that lose changes to the source's retention in less than ${HEADROOM_SHORT} h`);
}

const totalLag = new Spark(160, 28, LAG_FLOOR);
const totalRate = new Spark(160, 28, RATE_FLOOR);

function renderHeader() {
  const { source, capture, memory, now } = latest;
  setText(byId("server"), source.server);
  setText(byId("database"), source.database);
  setText(byId("host"), latest.host);
  setText(byId("version"), `sluice ${latest.version}`);
  setText(byId("uptime"), `up ${duration((Date.parse(now) - Date.parse(latest.started_at)) / 1000)}`);
  setAttribute(byId("uptime"), "title", `since ${latest.started_at}`);

  setText(byId("source-error"), source.error ? `The source does not answer: ${source.error}` : "");
  byId("source-error").hidden = !source.error;
  setText(byId("rtt"), source.error ? "no answer" : source.rtt_ms === null ? NONE : `${tenths.format(source.rtt_ms)} ms`);
  setText(byId("rtt-note"), source.polled_at ? `asked at ${clock(source.polled_at, now)}` : "not asked yet");
  setAttribute(byId("rtt-note"), "title", source.polled_at);
  byId("g-source").classList.toggle("bad", Boolean(source.error));

  const stalled = capture.state === "stalled";
  const lag = capture.lag_seconds === null ? "" : `, ${duration(capture.lag_seconds)} behind`;
  const last = capture.max_commit_ts ? `last captured commit ${clock(capture.max_commit_ts, now)}` : "";
  setText(byId("stalled"), stalled ? `Capture at the source has stalled${last ? `: ${last}` : ""}${lag}.` : "");
  byId("stalled").hidden = !stalled;
  setText(byId("capture-state"), capture.state);
  byId("g-capture").classList.toggle("bad", stalled);
  setText(byId("capture-note"), (last ? `to ${clock(capture.max_commit_ts, now)}` : "") + lag);
  setAttribute(byId("capture-note"), "title", capture.max_lsn ? `${capture.max_commit_ts}, LSN ${capture.max_lsn}` : null);

  let worst = null;
  for (const t of latest.tables) if (t.lag_seconds !== null && (!worst || t.lag_seconds > worst.lag_seconds)) worst = t;
  setText(byId("worst"), worst ? duration(worst.lag_seconds) : NONE);
  setText(byId("worst-note"), worst ? worst.capture_instance : "");
  setAttribute(byId("worst-note"), "title", worst ? worst.capture_instance : null);
  setText(byId("rate"), rate(latest.rows_per_second));

  const share = memory.budget_bytes > 0 ? memory.resident_bytes / memory.budget_bytes : 0;
  setText(byId("memory"), `${bytes(memory.resident_bytes)} of ${bytes(memory.budget_bytes)}`);
  setText(byId("memory-note"), `${bytes(memory.budget_used_bytes)} of the budget in use`);
  setAttribute(byId("memory-fill"), "width", Math.min(100, share * 100).toFixed(1));
  byId("g-memory").classList.toggle("bad", share > 1);
  return Boolean(source.error) || stalled;
}

// What a tab shows when it is one of many.
function renderTab(state, short) {
  const database = latest ? `${latest.source.database} – ` : "";
  document.title = `${short ? `${short} – ` : ""}${database}sluice`;
  const looks = {
    failed: ["#d33a2c", "M5 1h6l4 4v6l-4 4H5l-4-4V5z"], warn: ["#d9822b", "M1 2.5h14L8 14.5z"],
    gone: ["#777", "M1 1l14 14M15 1L1 15"], fine: ["#3f9a86", "M8 3a5 5 0 1 1 0 10A5 5 0 1 1 8 3z"],
  };
  const [colour, path] = looks[state];
  const stroke = state === "gone" ? ` stroke="${colour}" stroke-width="3"` : "";
  setAttribute(byId("icon"), "href", "data:image/svg+xml," + encodeURIComponent(
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16"><path fill="${colour}"${stroke} d="${path}"/></svg>`));
}

function render(keep = false) {
  performance.mark("render");
  byId("main").hidden = false;
  const trouble = renderHeader();
  const { worst, short } = renderVerdict();
  renderCounts();
  renderTable(keep);
  renderTab(worst === "failed" ? "failed" : short || trouble ? "warn" : "fine", short || (trouble ? "source trouble" : ""));
  performance.measure("sluice: render", "render");
}

// ---- asking the process -------------------------------------------------------

let timer = 0;
let askedAt = null; // while a question is open
let answeredAt = null;
let failures = 0;
let complaint = "";
let signedOut = false;

async function ask(url) {
  const response = await fetch(url, { cache: "no-store", signal: AbortSignal.timeout(8000) });
  if (response.status === 401 || response.status === 403 || new URL(response.url).pathname === "/login") {
    signedOut = true;
    throw new Error("signed out");
  }
  if (!response.ok) throw new Error(`HTTP ${response.status}`);
  signedOut = false;
  return response.json();
}

async function poll() {
  clearTimeout(timer);
  if (document.hidden || askedAt !== null) return;
  askedAt = performance.now();
  try {
    const answer = await ask("/api/status");
    performance.mark("answer");
    latest = answer;
    failures = 0;
    answeredAt = performance.now();
    render(performance.now() < heldUntil);
    performance.measure("sluice: update", "answer");
  } catch (error) {
    failures += 1;
    complaint = error.name === "TimeoutError" ? "the request timed out"
      : error.message === "Failed to fetch" ? "no connection" : error.message;
    // A mistake of this page must not pass unseen for a silent process.
    if (answeredAt !== null && answeredAt > askedAt) console.error(error);
  } finally {
    askedAt = null;
    timer = setTimeout(poll, POLL_MS);
    renderFreshness();
  }
}

function renderFreshness() {
  const now = performance.now();
  const slow = askedAt !== null && now - askedAt > 5000;
  // One lost answer may be chance; two are not.
  const gone = signedOut || failures >= 2 || slow;
  const quiet = answeredAt === null ? null : duration(Math.round((now - answeredAt) / 1000)).replace(".0", "");
  document.body.classList.toggle("is-gone", gone);
  const fresh = byId("fresh");
  fresh.hidden = false;
  fresh.className = `fresh ${gone ? "gone" : failures ? "late" : answeredAt === null ? "" : "live"}`;
  setText(byId("fresh-word"), gone ? (quiet ? `silent for ${quiet}` : "no answer") : answeredAt === null ? "connecting" : failures ? "no answer, asking again" : "live");
  if (latest) setTime(byId("fresh-time"), latest.now, latest.now, gone ? "last answer " : "", " UTC");

  const box = byId("gone");
  if (gone && box.hidden) {
    box.replaceChildren(make("b"), make("span"));
    box.hidden = false;
  }
  if (!gone) {
    box.hidden = true;
    return;
  }
  const [head, more] = box.children;
  if (signedOut) {
    setText(head, "This page is signed out.");
    if (!more.firstElementChild) more.replaceChildren(make("a", { href: "/login" }, "Sign in again"));
    if (latest) renderTab("gone", "signed out");
    return;
  }
  setText(head, quiet ? `sluice has not answered for ${quiet}.` : "sluice does not answer.");
  const reason = slow ? "the request is still open" : complaint;
  setText(more, latest ? `What is shown is as of ${clock(latest.now, latest.now)} UTC and may no longer be so (${reason}).` : `Nothing to show yet (${reason}).`);
  renderTab("gone", "no answer");
}

// ---- history, only of rows in sight -------------------------------------------

let historyTimer = 0;
let historySoon = 0;
let historyBusy = false;

// Asks a little later, so that a scroll through many rows makes one request.
function fetchHistorySoon() {
  if (historySoon) return;
  historySoon = setTimeout(() => { historySoon = 0; fetchHistory(true); }, 150);
}

async function fetchHistory(missingOnly) {
  if (document.hidden || failures || !latest) return;
  if (historyBusy) {
    if (missingOnly) fetchHistorySoon();
    return;
  }
  historyBusy = true;
  try {
    if (!missingOnly) {
      const { series } = await ask("/api/history");
      if (series[""]) {
        totalLag.draw(series[""].lag_seconds);
        totalRate.draw(series[""].rows_per_second);
      }
    }
    const wanted = new Set(inSight);
    for (const row of rows.values()) if (row.details) wanted.add(row);
    let queries = [""];
    for (const row of wanted) {
      if (missingOnly && row.series) continue;
      const one = `table=${encodeURIComponent(row.name)}`;
      const last = queries[queries.length - 1];
      if (last && last.length + one.length > URL_CHARS) queries.push(one);
      else queries[queries.length - 1] = last ? `${last}&${one}` : one;
    }
    for (const query of queries.filter(Boolean)) {
      const { series, step_seconds: step, ends_at: endsAt } = await ask(`/api/history?${query}`);
      performance.mark("history");
      for (const [name, one] of Object.entries(series)) rows.get(name)?.draw(one, step, endsAt);
      performance.measure("sluice: history", "history");
    }
  } catch {
    // The poll of the status tells that the process is silent; a missing sparkline needs no second alarm.
  } finally {
    historyBusy = false;
  }
}

function historyRound() {
  clearTimeout(historyTimer);
  historyTimer = setTimeout(historyRound, HISTORY_MS);
  fetchHistory(false);
}

// ---- controls -------------------------------------------------------------------

function changeView(page = 0) {
  view.page = page;
  heldUntil = 0;
  writeAddress();
  renderSort();
  if (latest) render();
}

function sortBy(key) {
  const column = COLUMNS.find((c) => c.key === key);
  const other = view.direction === "ascending" ? "descending" : "ascending";
  view.direction = view.sort === key ? other : column.first;
  view.sort = key;
  changeView();
}

const heads = new Map();

function buildHeads() {
  for (const { key, title, about } of COLUMNS) {
    const button = make("button", { type: "button" }, title, make("span", { class: "arrow", "aria-hidden": "true" }));
    if (about) button.title = about;
    button.addEventListener("click", () => sortBy(key));
    const head = make("th", { class: key, scope: "col", role: "columnheader" }, button);
    byId("heads").append(head);
    heads.set(key, head);
    byId("sorter").append(make("option", { value: key }, key === "state" ? "Worst first" : title));
  }
  byId("sorter").addEventListener("change", (event) => {
    view.sort = ""; // so that the column's own first direction is taken
    sortBy(event.target.value);
  });
}

function renderSort() {
  for (const [key, head] of heads) setAttribute(head, "aria-sort", view.sort === key ? view.direction : "none");
  byId("sorter").value = view.sort;
}

function clearFilters() {
  view.states.clear();
  view.query = "";
  view.quarantine = view.headroom = false;
  byId("query").value = "";
  changeView();
}

function start() {
  readAddress();
  buildCounts();
  buildHeads();
  renderSort();
  document.querySelector("#g-lag dd").append(totalLag.node);
  document.querySelector("#g-rate dd").append(totalRate.node);

  const query = byId("query");
  query.value = view.query;
  query.addEventListener("input", () => {
    view.query = query.value;
    changeView();
  });
  byId("flag-quarantine").addEventListener("click", () => { view.quarantine = !view.quarantine; changeView(); });
  byId("flag-headroom").addEventListener("click", () => { view.headroom = !view.headroom; changeView(); });
  byId("clear").addEventListener("click", () => { clearFilters(); query.focus(); });

  const hold = () => { heldUntil = performance.now() + HOLD_MS; };
  for (const event of ["pointermove", "pointerdown", "focusin", "keydown"]) byId("rows").addEventListener(event, hold, { passive: true });

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const at = document.activeElement;
    if (event.key === "/" && !/^(INPUT|SELECT|TEXTAREA)$/.test(at.tagName)) {
      event.preventDefault();
      query.focus();
      query.select();
    } else if (event.key === "Escape" && at === query && query.value) {
      query.value = view.query = "";
      changeView();
    } else if (/^(ArrowDown|ArrowUp)$/.test(event.key) && at.matches(".open")) {
      event.preventDefault();
      const buttons = [...byId("rows").querySelectorAll(".open")];
      buttons[buttons.indexOf(at) + (event.key === "ArrowDown" ? 1 : -1)]?.focus();
    }
  });

  window.addEventListener("hashchange", () => {
    readAddress();
    query.value = view.query;
    changeView();
  });
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) return clearTimeout(timer);
    poll();
    historyRound();
  });
  setInterval(renderFreshness, 1000);
  renderFreshness();
  poll().then(historyRound);
}

start();
