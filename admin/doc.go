// Package admin is the web admin: pages rendered on the server, with htmx for parts of them and one stream of
// server-sent events for what is live. What it shows and changes belongs to the queue, the registry and the master,
// which it knows as interfaces.
//
// The pages are in rooms, one package for what a person does: access (signing in, users, tokens, audit), topics, jobs
// (a job, dead letters, bulk work), shards (and processes), alerts, overview. Each has a Handler; this package makes
// them and registers their routes. What all of them work with is page.Options, and what they share is in page, live
// (the stream) and figures (charts, forecasts). A page's template is in web/templates/pages, its texts in
// web/locales/LANGUAGE. Handlers return errors; page.Base.Fail makes pages of them, so that all look alike.
//
// A request passes, from the outside in: CrossOriginProtection (a change that another site sends is refused), security
// headers, the session, Catch, SignedIn (who is it, and may it be here), and, for what not every user may do, Need.
//
// Live parts: a page names its events, the hub runs each source once for all who look at it, renders it once for each
// language and stops it when the last one left.
package admin
