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
