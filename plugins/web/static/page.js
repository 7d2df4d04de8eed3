// The overview as it changes. Every page works without this.

const place = document.querySelector("[data-live]");

function show(told) {
  for (const [name, text] of Object.entries(told.texts)) {
    for (const element of document.querySelectorAll(`[data-text="${name}"]`)) element.textContent = text;
  }
  for (const [name, [points, most]] of Object.entries(told.charts)) {
    document.querySelector(`[data-chart="${name}"]`).setAttribute("points", points);
    document.querySelector(`[data-most="${name}"]`).textContent = most;
  }
  showWarnings(told.warnings.length ? told.warnings : [["fine", "", "Nothing."]]);
}

let shown = "";

function showWarnings(warnings) {
  const text = JSON.stringify(warnings);
  if (text === shown) return; // a screen reader says it anew
  shown = text;
  const items = warnings.map(([level, about, words]) => {
    const item = document.createElement("li");
    item.className = level;
    if (about) {
      const strong = document.createElement("strong");
      strong.textContent = about;
      item.append(strong, " ");
    }
    item.append(words);
    return item;
  });
  document.querySelector("[data-warnings]").replaceChildren(...items);
}

if (place) {
  const events = new EventSource(place.dataset.live);
  events.onmessage = (event) => show(JSON.parse(event.data));
  addEventListener("pagehide", () => events.close());
}
