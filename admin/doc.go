// Package admin is the web admin: pages rendered on the server, with htmx for parts of them, and server-sent events for
// live parts. The data it shows and changes belongs to the queue, the registry and the master, which it accesses
// through interfaces declared beside their consumers.
//
// The pages are grouped by what a person does, one package for each area: access (signing in, users, tokens, audit),
// topics, jobs (a job, dead letters, bulk work), schedules, shards (and processes), alerts, overview. Each package has
// a Handler, and Options that name what it needs; this package creates the handlers and registers their routes. They
// share the packages page (rendering, texts, flashes, rights), list (pagers, sorting), live (the stream) and figures
// (charts, forecasts). A page's template is in web/templates/pages, its texts in web/locales/LANGUAGE. Handlers return
// errors; page.Pages.Fail turns them into pages, so that all errors look alike. Package admintest serves an admin to
// the tests of each area.
//
// A request passes, from the outside in: CrossOriginProtection (rejects changes sent by another site), security
// headers, the session, Catch, SignedIn (who the user is, and whether they may see the page), and Need where not every
// role suffices.
//
// Live parts: a page names its events. The hub runs each source once for all viewers, renders it once for each
// language, and stops it when the last viewer leaves.
package admin
