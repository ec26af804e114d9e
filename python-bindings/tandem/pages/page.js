// What Bokeh does not do by itself: words of tooltips, and the panel of a clicked command.
"use strict";

function tandemTime(ms) {
  if (ms >= 1000) return (ms / 1000).toPrecision(4) + " s";
  if (ms >= 1) return ms.toPrecision(4) + " ms";
  return (ms * 1000).toPrecision(4) + " µs";
}

function tandemBytes(bytes) {
  const units = ["B", "KB", "MB", "GB", "TB"];
  let unit = 0;
  while (bytes >= 1000 && unit < units.length - 1) {
    bytes /= 1000;
    unit++;
  }
  return (unit ? bytes.toPrecision(4) : String(bytes)) + " " + units[unit];
}

function tandemKind(row, table, words) {
  const axes = words[table.axes[row]];
  return words[table.kind[row]] + (axes ? " over " + axes : "");
}

function tandemName(row, table, words) {
  const source = words[table.source[row]];
  return words[table.name[row]] + (source ? " (" + source + ")" : "");
}

// A value of a tooltip: a field of the command in a row of the table, a cause, or milliseconds.
function tandemTip(what, value, table, words, whys) {
  if (what === "time") return tandemTime(value);
  if (what === "why") return whys[value];
  if (what === "command") return value < 0 ? "-" : tandemName(value, table, words);
  if (what === "bytes") return tandemBytes(table.bytes[value]);
  if (what === "strand") return table.strand[value] < 0 ? "shared" : String(table.strand[value]);
  if (what === "kind") return tandemKind(value, table, words);
  return words[table[what][value]] || "-";
}

// The bars that a range tells apart, in so many columns: of those of a lane that end in one column, the first. Bars are
// in the order of lanes, and there of time.
function tandemSeen(data, range, columns) {
  const seen = [], scale = columns / (range.end - range.start);
  let lane = NaN, last = -1;
  for (let i = 0; i < data.left.length; i++) {
    if (data.left[i] > range.end || data.right[i] < range.start) continue;
    const column = Math.floor((data.right[i] - range.start) * scale);
    if (data.lane[i] === lane && column <= last) continue;
    seen.push(i);
    lane = data.lane[i];
    last = column;
  }
  return seen;
}

// Both ends of a range change: one drawing for them.
let tandemZoomed = 0;
function tandemZoom(range, bars, columns) {
  clearTimeout(tandemZoomed);
  tandemZoomed = setTimeout(() => {
    for (const bar of bars) bar.view.filter.indices = tandemSeen(bar.data_source.data, range, columns);
  }, 30);
}

// Places in a step's sources where the same command ran on the same rank in the same iteration.
function tandemFind(step, command, rank, iteration) {
  for (const source of step.events) {
    const data = source.data;
    for (let i = 0; i < data.command.length; i++)
      if (data.command[i] === command && data.rank[i] === rank && data.iteration[i] === iteration)
        return { begin: data.left[i], end: data.right[i] };
  }
  return null;
}

// What a run of a collective was exposed for: [milliseconds, words].
function tandemExposed(step, command, rank, run, table, words, whys) {
  const data = step.exposed.data, sums = new Map();
  for (let i = 0; i < data.command.length; i++) {
    if (data.command[i] !== command || data.rank[i] !== rank) continue;
    if (data.left[i] < run.begin || data.right[i] > run.end) continue;
    const awaited = data.for[i];
    const other = awaited >= 0 && awaited !== command ? ", " + tandemName(awaited, table, words) : "";
    const why = whys[data.why[i]] + other;
    sums.set(why, (sums.get(why) || 0) + data.right[i] - data.left[i]);
  }
  return [...sums].map(([why, ms]) => [ms, why]);
}

function tandemRow(list, label, text) {
  const term = document.createElement("dt"), entry = document.createElement("dd");
  term.textContent = label;
  entry.textContent = text;
  list.append(term, entry);
}

// Shows the clicked command: what it is, when it ran in each step, and why it was exposed.
function tandemSelect(source, steps, table, words, whys) {
  const index = source.selected.indices[0];
  if (index === undefined) return;
  const row = source.data.command[index], rank = source.data.rank[index];
  const iteration = source.data.iteration[index];
  const list = document.createElement("dl");
  tandemRow(list, "operator", words[table.name[row]]);
  tandemRow(list, "kind", tandemKind(row, table, words));
  tandemRow(list, "source", words[table.source[row]] || "-");
  tandemRow(list, "rank", String(rank));
  tandemRow(list, "bytes", tandemBytes(table.bytes[row]));
  if (table.flops[row]) tandemRow(list, "FLOPs", table.flops[row].toPrecision(4));
  tandemRow(list, "stage, strand", table.stage[row] + ", " + table.strand[row]);
  for (const step of steps) {
    const run = tandemFind(step, row, rank, iteration);
    if (!run) continue;
    const times = tandemTime(run.end - run.begin) + ", from " + tandemTime(run.begin);
    tandemRow(list, step.title, times + " to " + tandemTime(run.end));
    for (const [ms, why] of tandemExposed(step, row, rank, run, table, words, whys))
      tandemRow(list, "exposed", tandemTime(ms) + ": " + why);
  }
  const panel = document.getElementById("command");
  panel.replaceChildren(list);
  panel.hidden = false;
}
