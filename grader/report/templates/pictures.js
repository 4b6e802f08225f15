// The slider of a picture in a lesson: each of its places shows a frame that was drawn when the page was made. It listens on
// the document, so that pictures may come later; it imports and exports nothing, so that it also runs as a plain script.
document.documentElement.classList.add("moves");
document.addEventListener("input", ({ target }) => {
  const figure = target.matches(".slider input") && target.closest("figure");
  if (!figure) return;
  const frames = [...figure.querySelectorAll(".frame")];
  frames.forEach((frame, place) => { frame.hidden = place !== target.valueAsNumber; });
  const { value } = frames[target.valueAsNumber].dataset;
  figure.querySelector("output").value = value;
  target.setAttribute("aria-valuetext", value);
});

// A cell of a matrix, pressed: its sum below the picture, and the cells that it is made of outlined. Arrows go from cell to cell.
const press = (cell) => {
  const figure = cell.closest("figure");
  figure.querySelectorAll(".lit, .pressed").forEach((one) => one.classList.remove("lit", "pressed"));
  cell.classList.add("pressed");
  const frame = cell.closest(".frame") ?? figure;
  for (const at of cell.dataset.of.split(" ")) frame.querySelector(`[data-at="${at}"]`)?.classList.add("lit");
  figure.querySelector(".sum").textContent = cell.dataset.sum;
};
document.addEventListener("click", ({ target }) => target.closest("[data-sum]") && press(target.closest("[data-sum]")));
document.addEventListener("keydown", (event) => {
  const cell = event.target.closest?.("[data-sum]");
  if (!cell) return;
  const [panel, row, column] = cell.dataset.at.split(",").map(Number);
  const [down, right] = { ArrowDown: [1, 0], ArrowUp: [-1, 0], ArrowRight: [0, 1], ArrowLeft: [0, -1], Enter: [0, 0], " ": [0, 0] }[event.key] ?? [];
  const to = down !== undefined && (cell.closest(".frame") ?? cell.closest("figure")).querySelector(`[data-sum][data-at="${panel},${row + down},${column + right}"]`);
  if (!to) return;
  event.preventDefault();
  cell.tabIndex = -1;
  to.tabIndex = 0;
  to.focus();
  press(to);
});
