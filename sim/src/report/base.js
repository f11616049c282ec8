"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const PALETTE = ["#1667c7", "#e0690c", "#2e9957", "#8a4fc4", "#c2387d", "#128a94", "#9a7b1e", "#6b7783", "#b3412f"];
const byId = (id) => document.getElementById(id);
const escape = (text) => String(text).replace(/[&<>"]/g, (c) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[c]);
const two = (value) => (value === null || value === undefined ? "–" : value.toFixed(2));

function svg(width, height, body, label) {
  return `<svg viewBox="0 0 ${width} ${height}" role="img" aria-label="${escape(label)}">${body}</svg>`;
}

function ticks(low, high, about) {
  const raw = (high - low) / about;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= raw);
  const all = [];
  for (let v = Math.ceil(low / step - 1e-9) * step; v <= high + 1e-9; v += step) all.push(+v.toFixed(6));
  return all;
}

/* Buttons that show and hide policies. */
function legend(names, color, shown, draw) {
  byId("legend").innerHTML = names.map((name) => `<button aria-pressed="true" data-policy="${name}"><i style="background:${color[name]}"></i>${name}</button>`).join("");
  byId("legend").addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (!button) return;
    const name = button.dataset.policy;
    shown.has(name) ? shown.delete(name) : shown.add(name);
    button.setAttribute("aria-pressed", shown.has(name));
    draw();
  });
}
