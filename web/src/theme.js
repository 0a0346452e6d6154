// Runs before the page is painted: unless the user has chosen a theme, it follows the system's, also when that changes.
// It also sends the browser's time zone to the server, for the times of forms.
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
