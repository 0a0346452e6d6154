// Shows openapi.yaml by Swagger UI, in the system's light or dark colors.
(() => {
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const follow = () => document.documentElement.classList.toggle("dark-mode", dark.matches);
  dark.addEventListener("change", follow);
  follow();
  SwaggerUIBundle({
    url: "openapi.yaml",
    dom_id: "#docs",
    deepLinking: true,
    docExpansion: "list",
    supportedSubmitMethods: [], // the page has no token to try a call with
    validatorUrl: null,
    queryConfigEnabled: false, // the address cannot name another document
  });
})();
