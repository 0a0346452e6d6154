// Runs before the page is painted: without a choice of the user's the theme is the system's, also when that changes later.
(() => {
  const root = document.documentElement;
  if (root.dataset.theme !== "auto") return;
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const follow = () => root.setAttribute("data-bs-theme", dark.matches ? "dark" : "light");
  dark.addEventListener("change", follow);
  follow();
})();
