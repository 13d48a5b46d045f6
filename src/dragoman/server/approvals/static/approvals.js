// The pages of approvals: a live list, and keys. Every answer is a form, which works without this script too.
// All markup comes from the server, where every value is escaped. One policy turns it into nodes.

const policy = window.trustedTypes
  ? window.trustedTypes.createPolicy("approvals", { createHTML: (text) => text })
  : { createHTML: (text) => text };
const find = (selector) => document.querySelector(selector);
const rows = find("#rows");

function announce(text) {
  const place = find("#announce");
  place.textContent = "";
  requestAnimationFrame(() => { place.textContent = text; });
}

function shown() {
  return find("[data-request]")?.dataset.request ?? "";
}

/** Show the list as it is now. The request that is open stays as it was read, and says if it has changed. */
async function refresh() {
  const answer = await fetch("/rows");
  if (answer.status === 401) location.reload();
  if (!answer.ok) return;
  const found = await answer.json();
  const focused = document.activeElement?.closest?.("li[data-id]")?.dataset.id;
  rows.innerHTML = policy.createHTML(found.rows);
  for (const row of rows.children) {
    if (row.dataset.id === shown()) row.firstElementChild.setAttribute("aria-current", "true");
    if (row.dataset.id === focused) row.firstElementChild.focus();
  }
  const count = find("#count");
  if (count.textContent !== found.count) announce(found.count);
  count.textContent = found.count;
  const isEmpty = rows.children.length === 0;
  if (find(".waiting") && !isEmpty) location.reload();
  if (shown() && find(".ways")) check();
}

/** Say that the request on the screen is no longer open, so that nobody answers in vain. */
async function check() {
  const answer = await fetch(`/requests/${encodeURIComponent(shown())}?part`);
  if (!answer.ok && answer.status !== 404 && answer.status !== 409) return;
  const holder = document.createElement("div");
  holder.innerHTML = policy.createHTML(await answer.text());
  const now = holder.querySelector("[data-request]");
  const before = find("[data-request]");
  if (now && now.dataset.digest === before.dataset.digest && now.querySelector(".ways")) return;
  const said = holder.querySelector("[role=status]")?.textContent ?? "It has changed.";
  const note = document.createElement("p");
  note.className = "alert changed";
  note.setAttribute("role", "alert");
  note.textContent = said;
  before.prepend(note);
  find(".ways").remove();
}

function step(by) {
  const links = [...rows.querySelectorAll("a")];
  if (!links.length) return;
  const at = links.findIndex((link) => link.parentElement.dataset.id === shown());
  links[at < 0 ? 0 : Math.min(links.length - 1, Math.max(0, at + by))].click();
}

const actions = {
  j: () => step(1),
  k: () => step(-1),
  a: () => (find("#approve") ?? find("#result"))?.focus(),
  d: () => find("#reason")?.focus(),
  "?": () => find("#keys").showModal(),
};

// Single keys can be switched off, for people whose software speaks or types letters.
const STORED = "dragoman-approvals-single-keys";
const box = find("#single-keys");
try {
  box.checked = localStorage.getItem(STORED) !== "off";
  box.addEventListener("change", () => localStorage.setItem(STORED, box.checked ? "on" : "off"));
} catch {
  // Without storage the setting lasts as long as the page.
}
find("#show-keys").addEventListener("click", () => find("#keys").showModal());
addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || find("dialog[open]")) return;
  const isTyping = event.target.closest?.("input, textarea, select");
  if (event.key === "Escape") {
    if (isTyping) event.target.blur();
    else if (location.pathname !== "/") location.assign("/");
    return;
  }
  if (isTyping || !box.checked || !actions[event.key] || (!rows && event.key !== "?")) return;
  event.preventDefault();
  actions[event.key]();
});

// A form is sent once, however often its button is pressed.
addEventListener("submit", (event) => {
  if (event.target.dataset.sent) event.preventDefault();
  event.target.dataset.sent = "yes";
});
addEventListener("pageshow", (event) => { if (event.persisted) location.reload(); });

if (rows) {
  const events = new EventSource("/events");
  for (const kind of ["ready", "changed"]) events.addEventListener(kind, refresh);
  // The age of each request is a text of the server.
  setInterval(refresh, 60_000);
}
