(() => {
  const list = document.querySelector("[data-list]"), bar = document.querySelector("[data-tools]");
  if (!list || !bar) return;
  const entries = [...list.children], field = (name) => bar.querySelector(`[name=${name}]`);
  const value = (entry, key) => Number(entry.dataset[key]);
  const show = () => {
    const word = field("word").value.trim().toLowerCase(), step = field("step").value, [key, sign] = field("order").value.split(" ");
    for (const entry of entries) entry.hidden = step && entry.dataset.step !== step || !entry.textContent.toLowerCase().includes(word);
    list.append(...entries.sort((one, other) => Number(sign) * (value(one, key) - value(other, key)) || value(one, "place") - value(other, "place")));
  };
  bar.hidden = false;
  bar.addEventListener("input", show);
})();
