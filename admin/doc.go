// Package admin is the web admin: pages rendered on the server, with htmx for parts of them and one stream of server-sent events for what
// is live. What it shows and changes belongs to the queue, the registry and the master, which it knows as interfaces.
//
// A page group is one file with a function that registers its routes; routes.go lists them. Its template stands in web/templates/pages, its
// texts in web/locales/LANGUAGE/GROUP.json. Handlers return errors; fail makes pages of them, so that all look alike.
//
// A request passes, from the outside in: CrossOriginProtection (a change that another site sends is refused), security headers, the
// session, fail, signedIn (who is it, and may it be here), and, for what not every user may do, need.
//
// Live parts: a page names its events, the hub runs each source once for all who look at it, renders it once for each language and stops
// it when the last one left.
package admin
