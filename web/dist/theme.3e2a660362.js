// Runs before the page is painted: without a choice of the user's the theme is the system's, also when that changes later.
// It also tells the server the browser's time zone, for the times of forms.
(() => {
  const root = document.documentElement;
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone || "UTC";
  if (!document.cookie.split("; ").includes("wakecall_browser_zone=" + zone))
    document.cookie = `wakecall_browser_zone=${zone}; path=${root.dataset.path}; max-age=31536000; samesite=lax`;
  if (root.dataset.theme !== "auto") return;
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const follow = () => root.setAttribute("data-bs-theme", dark.matches ? "dark" : "light");
  dark.addEventListener("change", follow);
  follow();
})();
