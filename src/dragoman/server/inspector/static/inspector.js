// The pages of the inspector: a live list, one exchange, its copies and its replay.
// All markup comes from the server, where every value is escaped. One policy turns it into nodes.

import { startKeys } from "./keys.js";
import { startPlayground } from "./playground.js";

const policy = window.trustedTypes
  ? window.trustedTypes.createPolicy("inspector", { createHTML: (text) => text })
  : { createHTML: (text) => text };

/** Replace the content of an element by markup of the server. */
export function fill(element, markup) {
  element.innerHTML = policy.createHTML(markup);
}

/** Say something to a screen reader. */
export function announce(text) {
  const place = document.getElementById("announce");
  place.textContent = "";
  requestAnimationFrame(() => { place.textContent = text; });
}

/** Send JSON, and return the answer. */
export function post(path, value) {
  return fetch(path, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(value),
  });
}

const find = (selector) => document.querySelector(selector);
const main = find("#main");
const rows = find("#rows");

// ---- the list ----

function searched() {
  const form = find("#search");
  return new URLSearchParams(new FormData(form)).toString();
}

function chosen() {
  return find("[data-exchange]")?.dataset.exchange ?? "";
}

function markChosen() {
  const id = chosen();
  for (const link of rows.querySelectorAll("a")) {
    if (link.parentElement.dataset.id === id) link.setAttribute("aria-current", "true");
    else link.removeAttribute("aria-current");
  }
  find(".columns").classList.toggle("open", id !== "");
}

let asked = 0;
// The changes that arrived since the list was asked for: the answer may be older than they are.
let missed = null;

async function refresh() {
  const number = ++asked;
  missed = [];
  const answer = await fetch(`/inspector/rows?${searched()}`);
  const found = answer.ok ? await answer.json() : null;
  if (!found || number !== asked) return;
  fill(rows, found.rows);
  find("#count").textContent = found.count;
  const late = missed ?? [];
  missed = null;
  late.forEach(apply);
  markChosen();
}

function search() {
  refresh();
  listen();
}

let events = null;

function listen() {
  events?.close();
  events = new EventSource(`/inspector/events?${searched()}`);
  // Before the connection was open, or while it was interrupted, rows may have changed.
  events.addEventListener("ready", refresh);
  for (const kind of ["changed", "removed"]) {
    events.addEventListener(kind, (event) => {
      const entry = JSON.parse(event.data);
      missed?.push(entry);
      apply(entry);
      if (kind === "changed" && entry.state !== "running") tell(entry);
    });
  }
}

/** Say that an exchange is over, and show it again if it is open. */
function tell(entry) {
  announce(`${entry.model}: ${entry.state}`);
  if (entry.id === chosen()) show(entry.id, { stay: true });
}

function findRow(id) {
  return rows.querySelector(`li[data-id="${CSS.escape(id)}"]`);
}

/** Replace the row of an entry, add it, or remove it if it does not fit any more. */
function apply(entry) {
  const old = findRow(entry.id);
  if (!entry.row) {
    old?.remove();
    count();
    return;
  }
  const holder = document.createElement("ol");
  fill(holder, entry.row);
  const row = holder.firstElementChild;
  const hadFocus = old?.contains(document.activeElement);
  if (old) old.replaceWith(row);
  else rows.prepend(row);
  row.classList.add("fresh");
  if (hadFocus) row.querySelector("a").focus();
  count();
  markChosen();
  const waiting = find(".waiting");
  if (waiting) {
    waiting.classList.remove("waiting");
    waiting.querySelector("h1").textContent = "Exchanges";
  }
}

function count() {
  const number = rows.children.length;
  const place = find("#count");
  place.textContent = place.textContent.replace(/^\S+ exchanges?/, `${number || "No"} ${number === 1 ? "exchange" : "exchanges"}`);
}

// ---- one exchange ----

let shown = 0;

/** Show an exchange beside the list. With `stay`, the focus and the address stay. */
export async function show(id, { stay = false } = {}) {
  const number = ++shown;
  const answer = await fetch(`/inspector/exchanges/${encodeURIComponent(id)}?part`);
  const text = await answer.text();
  if (number !== shown) return;
  if (!answer.ok) {
    announce("This exchange is no longer kept.");
    return;
  }
  fill(main, text);
  if (!stay) {
    history.pushState({ id }, "", `/inspector/exchanges/${encodeURIComponent(id)}`);
    main.scrollTop = 0;
  }
  document.title = `${find("#exchange-title")?.textContent ?? "Exchange"} - dragoman inspector`;
  markChosen();
}

/** Move to the next exchange of the list, or to the previous one. */
export function step(by) {
  const links = [...rows.querySelectorAll("a")];
  if (!links.length) return;
  const at = links.findIndex((link) => link.parentElement.dataset.id === chosen());
  const next = links[at < 0 ? 0 : Math.min(links.length - 1, Math.max(0, at + by))];
  next.focus({ preventScroll: true });
  next.scrollIntoView({ block: "nearest" });
  show(next.parentElement.dataset.id);
}

/** Move the focus to the next mark of the replies, or to the previous one. */
export function stepMark(by) {
  const marks = [...document.querySelectorAll("pre.reply mark")];
  if (!marks.length) return;
  const at = marks.indexOf(document.activeElement);
  const next = marks[(at + by + marks.length + (at < 0 && by < 0 ? 1 : 0)) % marks.length];
  next.focus();
  next.scrollIntoView({ block: "center" });
}

/** Go back to the list. */
export function leave() {
  const id = chosen();
  if (!id) return;
  if (matchMedia("(max-width: 51.99rem)").matches) {
    location.assign("/inspector");
    return;
  }
  findRow(id)?.querySelector("a").focus();
}

// ---- copies and replay ----

export async function copy(kind) {
  const link = find(`[data-copy="${kind}"]`);
  if (!link) return;
  const answer = await fetch(link.href);
  if (!answer.ok) {
    announce("It could not be copied.");
    return;
  }
  const text = await answer.text();
  const label = link.firstChild.textContent.trim();
  try {
    await navigator.clipboard.writeText(text);
    link.dataset.copied = "";
    announce(`${label}: copied`);
    say(link, "Copied");
  } catch {
    const dialog = find("#copy");
    find("#copy-title").textContent = label;
    const area = find("#copy-text");
    area.value = text;
    dialog.showModal();
    area.focus();
    area.select();
  }
}

function say(link, word) {
  const before = link.firstChild.textContent;
  if (before.startsWith(word)) return;
  link.firstChild.textContent = `${word} `;
  setTimeout(() => { link.firstChild.textContent = before; }, 1500);
}

async function replay(form) {
  const fields = Object.fromEntries(new FormData(form));
  const place = find("#replay-result");
  const button = form.querySelector("button");
  button.disabled = true;
  place.setAttribute("aria-busy", "true");
  try {
    const answer = await post("/inspector/replay", { id: form.dataset.id, ...fields });
    const found = await answer.json();
    if (found.id) {
      announce("The endpoint has answered.");
      await settled(found.id);
      await show(found.id);
    } else {
      fill(place, found.html);
      place.focus();
    }
  } finally {
    button.disabled = false;
    place.removeAttribute("aria-busy");
  }
}

/** Wait until the row of a new exchange is complete: its record is made after its end. */
async function settled(id) {
  for (let attempt = 0; attempt < 50; attempt++) {
    const state = findRow(id)?.querySelector(".state");
    if (state && !state.classList.contains("running")) return;
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}

function start() {
  document.documentElement.classList.add("scripted");
  let timer = 0;
  find("#search").addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(search, 150);
  });
  find("#search").addEventListener("submit", (event) => {
    event.preventDefault();
    search();
  });
  rows.addEventListener("click", (event) => {
    const row = event.target.closest("li[data-id]");
    if (!row || event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
    event.preventDefault();
    show(row.dataset.id).then(() => main.focus({ preventScroll: true }));
  });
  main.addEventListener("click", (event) => {
    const link = event.target.closest("[data-copy]");
    if (!link) return;
    event.preventDefault();
    copy(link.dataset.copy);
  });
  main.addEventListener("submit", (event) => {
    if (event.target.id !== "replay-form") return;
    event.preventDefault();
    replay(event.target);
  });
  addEventListener("popstate", () => location.reload());
  listen();
}

if (document.body.dataset.page === "exchanges") start();
else startPlayground({ fill, post });
startKeys({ step, stepMark, leave, copy, announce });
