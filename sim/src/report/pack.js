const names = [...new Set(data.traces.flatMap((t) => t.policies.map((p) => p.policy)))];
const color = Object.fromEntries(names.map((name, i) => [name, PALETTE[i % PALETTE.length]]));
const shown = new Set(names);
const mean = (values) => (values.length && values.every((v) => v !== null && v !== undefined) ? values.reduce((a, b) => a + b, 0) / values.length : null);

// What all names of traces begin with says nothing.
const common = data.traces.length < 2 ? 0 : data.traces.map((t) => t.trace).reduce((a, b) => {
  let n = 0;
  while (n < a.length && a[n] === b[n]) n++;
  return a.slice(0, n);
}).replace(/[^_-]*$/, "").length;
const shortName = (trace) => trace.slice(common);

/* One chart of curves against arrived load. */
const W = 540, H = 250, L = 40, R = 12, T = 12, B = 34;
function chart(trace, spec) {
  const last = Math.max(...trace.policies.map((p) => p[spec.key].length - 1));
  const xs = [Math.min(spec.from, last - 1), last];
  const visible = trace.policies.filter((p) => shown.has(p.policy));
  const values = visible.flatMap((p) => p[spec.key].slice(Math.ceil(xs[0]), last + 1)).filter((v) => v !== null);
  const ys = spec.range(values.length ? values : [0, 100], trace);
  const x = (v) => L + ((v - xs[0]) / (xs[1] - xs[0])) * (W - L - R);
  const y = (v) => T + (1 - (v - ys[0]) / (ys[1] - ys[0])) * (H - T - B);
  const clip = `c${chart.count = (chart.count || 0) + 1}`;
  let body = `<clipPath id="${clip}"><rect x="${L}" y="${T}" width="${W - L - R}" height="${H - T - B}"/></clipPath>`;
  for (const v of ticks(ys[0], ys[1], 5)) {
    body += `<line class="grid" x1="${L}" x2="${W - R}" y1="${y(v)}" y2="${y(v)}"/><text x="${L - 6}" y="${y(v) + 4}" text-anchor="end">${v}</text>`;
  }
  for (const v of ticks(xs[0], xs[1], 7)) {
    body += `<line class="axis" x1="${x(v)}" x2="${x(v)}" y1="${H - B}" y2="${H - B + 4}"/><text x="${x(v)}" y="${H - B + 16}" text-anchor="middle">${v}</text>`;
  }
  body += `<line class="axis" x1="${L}" x2="${W - R}" y1="${H - B}" y2="${H - B}"/><text x="${W - R}" y="${H - 3}" text-anchor="end">GPU asked for so far, % of the cluster</text>`;
  let inside = "";
  if (spec.ideal) {
    inside += `<path class="ideal" d="M${x(xs[0])} ${y(xs[0])}L${x(100)} ${y(100)}L${x(last)} ${y(100)}"/>`;
    if (trace.ceiling !== null) {
      inside += `<line class="ceiling" x1="${x(trace.ceiling)}" x2="${x(last)}" y1="${y(trace.ceiling)}" y2="${y(trace.ceiling)}"/>`;
      body += `<text class="strong over" x="${W - R}" y="${y(trace.ceiling) - 5}" text-anchor="end">ceiling ${two(trace.ceiling)}</text>`;
    }
  }
  for (const p of [...visible].reverse()) {
    let d = "", pen = "M";
    for (let v = Math.ceil(xs[0]); v <= last; v++) {
      const value = p[spec.key][v];
      if (value === null || value === undefined) { pen = "M"; continue; }
      d += `${pen}${x(v).toFixed(1)} ${y(value).toFixed(1)}`;
      pen = "L";
    }
    inside += `<path class="curve" stroke="${color[p.policy]}" d="${d}"/>`;
  }
  body += `<g clip-path="url(#${clip})">${inside}</g><line class="cursor" y1="${T}" y2="${H - B}" visibility="hidden"/>`;
  body += `<rect class="hover" x="${L}" y="${T}" width="${W - L - R}" height="${H - T - B}" fill="transparent"/>`;
  return { html: svg(W, H, body, `${spec.title}, ${trace.trace}`), hover: (node) => hover(node, visible, spec, xs, last, x) };
}

function hover(node, policies, spec, xs, last, x) {
  const area = node.querySelector(".hover"), cursor = node.querySelector(".cursor"), tip = byId("tip");
  area.addEventListener("mousemove", (event) => {
    const box = area.getBoundingClientRect();
    const v = Math.max(0, Math.min(last, Math.round(xs[0] + ((event.clientX - box.left) / box.width) * (xs[1] - xs[0]))));
    cursor.setAttribute("x1", x(v));
    cursor.setAttribute("x2", x(v));
    cursor.setAttribute("visibility", "visible");
    const rows = policies.map((p) => [p, p[spec.key][v]]).sort((a, b) => (b[1] ?? -1) - (a[1] ?? -1));
    tip.innerHTML = `<b>${v} % asked for</b><table>${rows.map(([p, value]) => `<tr><td style="color:${color[p.policy]}">${p.policy}</td><td>${two(value)}</td></tr>`).join("")}</table>`;
    tip.hidden = false;
    const left = event.clientX + 16 + tip.offsetWidth > innerWidth ? event.clientX - 16 - tip.offsetWidth : event.clientX + 16;
    tip.style.left = `${left}px`;
    tip.style.top = `${Math.min(event.clientY + 12, innerHeight - tip.offsetHeight - 8)}px`;
  });
  area.addEventListener("mouseleave", () => { cursor.setAttribute("visibility", "hidden"); tip.hidden = true; });
}

const ALLOC = {
  key: "alloc", title: "GPU in use, % of the cluster", from: 70, ideal: true,
  range: (values, trace) => [Math.max(0, Math.floor(Math.min(...values) / 5) * 5), trace.ceiling === null ? Math.max(...values, 1) * 1.01 : 100],
};
const FRAG = {
  key: "frag", title: "Fragmented GPU, % of the cluster", from: 0, ideal: false,
  range: (values) => [0, Math.max(...values, 1) * 1.05],
};

/* Idle GPU at 100 % of arrived load: grouped bars. */
function bars() {
  const rows = data.traces.filter((t) => t.policies.some((p) => p.alloc_100));
  if (!rows.length) return `<p class="note">The load does not reach 100 %.</p>`;
  const policies = names.filter((name) => shown.has(name));
  const bar = policies.length > 3 ? 12 : 15, gap = 18, left = 150, width = 1120, right = 70;
  const height = rows.length * (policies.length * bar + gap) + 34;
  const idle = (p) => 100 - p.alloc_100[0];
  const top = Math.max(1, ...rows.flatMap((t) => t.policies.filter((p) => shown.has(p.policy) && p.alloc_100).map((p) => idle(p) + p.alloc_100[1])));
  const x = (v) => left + (v / (top * 1.04)) * (width - left - right);
  let body = "", yTop = 8;
  for (const v of ticks(0, top, 8)) {
    body += `<line class="grid" x1="${x(v)}" x2="${x(v)}" y1="4" y2="${height - 26}"/><text x="${x(v)}" y="${height - 10}" text-anchor="middle">${v}</text>`;
  }
  for (const t of rows) {
    const span = policies.length * bar;
    body += `<text class="strong" x="${left - 12}" y="${yTop + span / 2 + 4}" text-anchor="end" style="font-size:12.5px">${escape(shortName(t.trace))}</text>`;
    policies.forEach((name, i) => {
      const p = t.policies.find((candidate) => candidate.policy === name);
      if (!p || !p.alloc_100) return;
      const y = yTop + i * bar, end = x(idle(p)), sd = p.alloc_100[1], middle = y + (bar - 1) / 2;
      body += `<rect x="${left}" y="${y}" width="${end - left}" height="${bar - 2}" rx="1.5" fill="${color[name]}"><title>${name}: ${two(idle(p))} % idle</title></rect>`;
      if (sd > 0) body += `<line x1="${x(Math.max(0, idle(p) - sd))}" x2="${x(idle(p) + sd)}" y1="${middle}" y2="${middle}" stroke="#1d2733" stroke-width="1"/>`;
      body += `<text x="${Math.max(end, x(idle(p) + sd)) + 5}" y="${middle + 4}" class="over" style="font-size:10.5px">${two(idle(p))}</text>`;
    });
    if (t.ceiling !== null) body += `<line x1="${x(100 - t.ceiling)}" x2="${x(100 - t.ceiling)}" y1="${yTop - 3}" y2="${yTop + span + 1}" stroke="#fff" stroke-width="4"/><line x1="${x(100 - t.ceiling)}" x2="${x(100 - t.ceiling)}" y1="${yTop - 3}" y2="${yTop + span + 1}" stroke="#1d2733" stroke-width="1.6"/>`;
    yTop += span + gap;
  }
  body += `<line class="axis" x1="${left}" x2="${left}" y1="4" y2="${height - 26}"/>`;
  return svg(width, height, body, "Idle GPU at 100 % of arrived load");
}

function tiles() {
  return names.map((name) => {
    const own = data.traces.map((t) => t.policies.find((p) => p.policy === name)).filter(Boolean);
    const at = (key) => mean(own.map((p) => p[key] && p[key][0]));
    const final = at("alloc_130"), full = at("alloc_100");
    const main = final ?? full;
    const gains = data.traces.map((t) => { const p = t.policies.find((q) => q.policy === name); return t.published_fgd && p && p.alloc_130 ? p.alloc_130[0] - t.published_fgd[1] : null; });
    const gain = mean(gains);
    return `<div class="tile" style="border-top-color:${color[name]}"><span class="name">${name}</span><b>${two(main)}<small> %</small></b>` +
      `<span>in use at ${final === null ? 100 : 130} % asked for</span>` +
      (final === null ? "" : `<span>${two(full)} % at 100 %</span>`) +
      (gain === null ? "" : `<span>${gain >= 0 ? "+" : "−"}${Math.abs(gain).toFixed(2)} points to published FGD</span>`) + `</div>`;
  }).join("");
}

function figures() {
  const heads = ["trace", "policy", "in use<br>at 100 %", "in use<br>at 130 %", "ceiling", "of the<br>ceiling", "8-GPU pods<br>placed", "constrained<br>placed", "fragment ratio<br>at 80 %", "µs per pod"];
  const rows = data.traces.flatMap((t) => {
    const best = (key) => Math.max(...t.policies.map((p) => (p[key] ? p[key][0] : -1)));
    const best100 = best("alloc_100"), best130 = best("alloc_130");
    const cell = (v, top) => (v ? `<td class="${v[0] === top ? "best" : ""}">${two(v[0])} <span class="sd">± ${two(v[1])}</span></td>` : "<td>–</td>");
    return t.policies.map((p, i) => `<tr class="${i ? "" : "first"}"><td>${i ? "" : escape(shortName(t.trace))}</td><td><i style="background:${color[p.policy]}"></i> ${p.policy}</td>` +
      cell(p.alloc_100, best100) + cell(p.alloc_130, best130) +
      `<td>${i ? "" : two(t.ceiling)}</td><td>${t.ceiling !== null && p.alloc_130 ? ((100 * p.alloc_130[0]) / t.ceiling).toFixed(1) + " %" : "–"}</td>` +
      `<td>${two(p.accepted_8gpu)}</td><td>${two(p.accepted_constrained)}</td><td>${two(p.frag_ratio_80)}</td><td>${p.us_per_pod.toFixed(1)}</td></tr>`);
  });
  return `<table><thead><tr>${heads.map((h) => `<th>${h}</th>`).join("")}</tr></thead><tbody>${rows.join("")}</tbody></table>`;
}

function draw() {
  byId("bars").innerHTML = bars();
  const place = byId("traces");
  place.innerHTML = "";
  for (const t of data.traces) {
    const card = document.createElement("section");
    card.className = "card";
    const charts = [ALLOC, FRAG].map((spec) => [spec, chart(t, spec)]);
    const until = t.ceiling === null ? "" : `Ceiling ${two(t.ceiling)} %: proven for policies that turn away no pod of at most one GPU until ${t.accepted_until.toFixed(0)} % has been asked for, as the best one here.`;
    card.innerHTML = `<h2>${escape(shortName(t.trace))}</h2><p class="note">${until}</p><div class="pair">${charts.map(([spec, c]) => `<div><h3>${spec.title}</h3>${c.html}</div>`).join("")}</div>`;
    place.append(card);
    card.querySelectorAll("svg").forEach((node, i) => charts[i][1].hover(node));
  }
}

const seeds = data.traces[0].policies[0].seeds;
byId("setting").textContent = `${data.nodes.toLocaleString("en")} nodes, ${data.gpus.toLocaleString("en")} GPUs. Pods arrive one at a time ${data.arrivals}; none leaves. Means of ${seeds} seed${seeds === 1 ? "" : "s"}; choice among equal nodes: ${data.ties}; workload mix: ${data.mix}.`;
if (data.traces.some((t) => t.ceiling !== null)) byId("ceiling-note").textContent = " The black mark is the ceiling: no policy that accepts as long as the best one here could leave less, even knowing the future.";
byId("tiles").innerHTML = tiles();
byId("figures").innerHTML = figures();
legend(names, color, shown, draw);
draw();
