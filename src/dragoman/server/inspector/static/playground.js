// The playground: what dragoman finds in a pasted text, while somebody types.

const DELAY = 200;

/** Read the form after each change, and show the result. */
export function startPlayground({ fill, post }) {
  const form = document.querySelector("#play");
  const result = document.querySelector("#play-result");
  let timer = 0;
  let asked = 0;

  async function run() {
    const number = ++asked;
    const fields = Object.fromEntries(new FormData(form));
    result.setAttribute("aria-busy", "true");
    const answer = await post("/inspector/playground", { ...fields, piece: Number(fields.piece) });
    const text = await answer.text();
    if (number !== asked) return;
    result.removeAttribute("aria-busy");
    if (answer.headers.get("content-type")?.startsWith("text/html")) fill(result, text);
    else result.textContent = text;
  }

  form.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(run, DELAY);
  });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    run();
  });
}
