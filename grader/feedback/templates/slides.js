addEventListener("keydown", (event) => {
  const move = { ArrowRight: 1, PageDown: 1, " ": 1, ArrowLeft: -1, PageUp: -1 }[event.key];
  if (!move || event.target.closest("summary, input, select, a, [tabindex]")) return;
  const slides = [...document.querySelectorAll("[data-slide]")].filter((slide) => !slide.hidden);
  const now = slides.findIndex((slide) => slide.getBoundingClientRect().bottom > innerHeight / 2);
  event.preventDefault();
  slides[Math.max(0, Math.min(slides.length - 1, now + move))].scrollIntoView();
});
