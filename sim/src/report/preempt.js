const names = data.policies.map((p) => p.policy);
const color = Object.fromEntries(names.map((name, i) => [name, PALETTE[i % PALETTE.length]]));
const shown = new Set(names);
const grouped = (value) => Math.round(value).toLocaleString("en");
const one = (value) => value.toFixed(1);
const percent = (ratio) => (ratio ? `${one(ratio[0] * 100)} %` : "–");
const halfWidth = (ratio) => (ratio && ratio[1] !== null ? ` ± ${one(ratio[1] * 100)}` : "");

/* One bar per policy, a dot per seed. */
function bars(spec, width) {
  const policies = data.policies.filter((p) => shown.has(p.policy));
  const values = policies.flatMap((p) => [p.mean[spec.key], ...p.seeds.map((s) => s[spec.key])]);
  const step = 24, bar = 15, left = 142, right = 62, height = policies.length * step + 32;
  const top = Math.max(...values, spec.least) * 1.03;
  const x = (v) => left + (v / top) * (width - left - right);
  let body = "";
  for (const v of ticks(0, top, width > 700 ? 8 : 4)) {
    body += `<line class="grid" x1="${x(v)}" x2="${x(v)}" y1="2" y2="${height - 24}"/><text x="${x(v)}" y="${height - 8}" text-anchor="middle">${v.toLocaleString("en")}</text>`;
  }
  policies.forEach((p, i) => {
    const y = 6 + i * step, value = p.mean[spec.key], dots = p.seeds.map((s) => s[spec.key]);
    body += `<text class="strong" x="${left - 10}" y="${y + bar / 2 + 4}" text-anchor="end">${escape(p.policy)}</text>`;
    body += `<rect x="${left}" y="${y}" width="${Math.max(1, x(value) - left)}" height="${bar}" rx="2" fill="${color[p.policy]}" fill-opacity="0.75"><title>${p.policy}: ${spec.text(value)}</title></rect>`;
    if (dots.length > 1) for (const v of dots) body += `<circle cx="${x(v)}" cy="${y + bar / 2}" r="2.6" fill="#1d2733" fill-opacity="0.45" stroke="#fff" stroke-width="0.6"/>`;
    body += `<text class="strong over" x="${x(Math.max(value, ...(dots.length > 1 ? dots : []))) + 7}" y="${y + bar / 2 + 4}">${spec.text(value)}</text>`;
  });
  body += `<line class="axis" x1="${left}" x2="${left}" y1="2" y2="${height - 24}"/>`;
  return svg(width, height, body, spec.title);
}

const LOST = { key: "lost_gpu_hours", title: "GPU-hours lost", text: grouped, least: 1 };
const OTHERS = [
  { key: "tier1_evictions", title: "Training gangs evicted", text: one, least: 1 },
  { key: "jct_mean_hours", title: "Mean hours from submission to completion", text: two, least: 1 },
  { key: "max_unsaved_evictions", title: "Most evictions of one job since it last saved (bar: worst seed)", text: grouped, least: 1 },
  { key: "evicted_per_requested", title: "GPUs evicted per GPU that inference asked for", text: two, least: 1 },
];

function tiles() {
  return data.policies.map((p) => `<div class="tile" style="border-top-color:${color[p.policy]}"><span class="name">${p.policy}</span><b>${grouped(p.mean.lost_gpu_hours)}</b>` +
    `<span>GPU-hours lost</span>` +
    (data.baseline === null ? "" : p.policy === data.baseline ? `<span>the baseline</span>` : `<span>${percent(p.lost_ratio)}${halfWidth(p.lost_ratio)} of ${data.baseline}</span>`) + `</div>`).join("");
}

function figures() {
  const heads = ["policy", "GPU-hours<br>lost", "evictions", "training<br>gangs", "most<br>unsaved", "evicted<br>per asked", "wait s<br>p50 / p99", "completion<br>mean, h", "completion<br>p99, h", "goodput<br>%", "in use<br>%", "gangs<br>broken", "plan µs<br>p99"];
  if (data.baseline !== null) heads.splice(2, 0, "lost, of<br>baseline");
  const row = ({ policy, mean, lost_ratio }) => [
    `<i style="background:${color[policy]}"></i> ${policy}`, grouped(mean.lost_gpu_hours),
    ...(data.baseline === null ? [] : [policy === data.baseline ? "100 %" : `${percent(lost_ratio)}<span class="sd">${halfWidth(lost_ratio)}</span>`]),
    grouped(mean.evictions), one(mean.tier1_evictions), mean.max_unsaved_evictions, two(mean.evicted_per_requested),
    `${grouped(mean.wait_p50_seconds)} / ${grouped(mean.wait_p99_seconds)}`, two(mean.jct_mean_hours), one(mean.jct_p99_hours),
    two(mean.goodput_percent), two(mean.in_use_percent), mean.gangs_broken, grouped(mean.plan_p99_us),
  ];
  const cells = data.policies.map((p) => `<tr>${row(p).map((cell) => `<td>${cell}</td>`).join("")}</tr>`);
  return `<table class="one"><thead><tr>${heads.map((h) => `<th>${h}</th>`).join("")}</tr></thead><tbody>${cells.join("")}</tbody></table>`;
}

function draw() {
  if (!shown.size) return;
  byId("lost").innerHTML = bars(LOST, 1120);
  byId("others").innerHTML = OTHERS.map((spec) => `<div><h3>${spec.title}</h3>${bars(spec, 540)}</div>`).join("");
}

byId("setting").textContent = `${data.nodes.toLocaleString("en")} nodes, ${data.gpus.toLocaleString("en")} GPUs, ${data.jobs.toLocaleString("en")} jobs in the trace; a daily wave of inference evicts training, victims resume from their last checkpoint. ${data.measured_days} days measured after ${data.warm_up_days} of warm-up. Means of ${data.seeds} seed${data.seeds === 1 ? "" : "s"}${data.baseline === null ? "" : `; ratios seed by seed, with their 95 % interval`}.`;
byId("tiles").innerHTML = tiles();
byId("figures").innerHTML = figures();
legend(names, color, shown, draw);
draw();
