// The keys of the inspector. Single keys can be switched off, for people whose software speaks or types letters.

const STORED = "dragoman-inspector-single-keys";
const find = (selector) => document.querySelector(selector);

function areOn() {
  try {
    return localStorage.getItem(STORED) !== "off";
  } catch {
    return true;
  }
}

function isTyping(target) {
  return target.closest?.("input:not([type=radio], [type=checkbox]), textarea, select, [contenteditable]") !== null;
}

/** Handle keys until the page is closed. */
export function startKeys({ step, stepMark, leave, copy }) {
  const dialog = find("#keys");
  const box = find("#single-keys");
  box.checked = areOn();
  box.addEventListener("change", () => {
    try {
      localStorage.setItem(STORED, box.checked ? "on" : "off");
    } catch {
      // Without storage the setting lasts as long as the page.
    }
  });
  find("#show-keys").addEventListener("click", () => dialog.showModal());

  const filter = (number) => {
    const choice = document.querySelectorAll("#search input[name=show]")[number];
    if (!choice) return;
    choice.focus();
    choice.click();
  };
  const actions = {
    j: () => step(1),
    k: () => step(-1),
    n: () => stepMark(1),
    b: () => stepMark(-1),
    c: () => copy("curl"),
    t: () => copy("test"),
    i: () => copy("report"),
    r: () => find("#replay-endpoint")?.focus(),
    e: () => location.assign("/inspector"),
    p: () => location.assign("/inspector/playground"),
    "/": () => find("#q")?.focus(),
    "?": () => dialog.showModal(),
  };
  const isList = document.body.dataset.page === "exchanges";

  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
    if (event.key === "Escape" && isList) {
      if (isTyping(event.target)) event.target.blur();
      else leave();
      return;
    }
    if (!box.checked || isTyping(event.target)) return;
    if (/^[1-4]$/.test(event.key) && isList) {
      event.preventDefault();
      filter(Number(event.key) - 1);
      return;
    }
    const action = actions[event.key];
    if (!action || (!isList && !["e", "p", "?"].includes(event.key))) return;
    event.preventDefault();
    action();
  });
}
