// Package grape serves the clients of Grape: its HTTP interface, with its parameters in the query of every method.
//
//	POST   /api/job/produce   tube, jid, dtr, ttr; the body is the job    true; false if the id is delayed or ready
//	DELETE /api/job/delete    tube, jid        true if it was delayed or ready
//	GET    /api/job/consume   tube, max        jobs by due time
//	DELETE /api/job/finish    tube, jid        true if it was retained
//	PUT    /api/job/release   tube, jid, dtr   true if it was retained; it is delayed again
//	PUT    /api/job/bury      tube, jid        true if it was retained; it has failed (also /api/job/failure)
//	GET    /api/job/peek      tube, max        failed jobs, the oldest first
//	PUT    /api/job/kick      tube, jid, dtr   true if it had failed; it is delayed again
//	DELETE /api/job/discard   tube, jid        true if it had failed
//	POST   /api/tube/create, /api/tube/delete  tube
//	GET    /api/tube/list, /api/tube/stats, /api/tube/stats/NAME
//
// No request needs a password, so the listener belongs on the loopback interface. What Grape's own pages call, on a
// second listener (Web), does:
//
//	POST /api/authen/login    {"username", "password"}    the session's id, also in the cookie grape.session
//	GET  /api/authen/logout                               null
//	/api/tube/…               as above; 401 without a session
//
// Tube T is the pull topic grape.T, escaped by registry.EscapeName, with the settings of the namespace grape.*. Which
// tubes were created is a setting of the registry. Retained is running, failed is dead, and an execution is an attempt,
// also one that was released. A job whose ttr is over is ready again, without a limit.
//
// Unlike Grape, bodies may be any bytes, two consumers at once both get jobs, and delete and finish leave a job alone
// whose state they answer false for.
package grape
