// Package grape serves clients of Grape. All methods of its HTTP interface take their parameters from the query.
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
// Requests need no password, so the listener belongs on the loopback interface. A second listener (Web), for Grape's
// web page, does require one:
//
//	POST /api/authen/login    {"username", "password"}    the session's id, also in the cookie grape.session;
//	                                                      429 after too many wrong ones
//	GET  /api/authen/logout                               null
//	/api/tube/…               as above; 401 without a session
//
// Tube T is the pull topic grape.T, escaped by registry.EscapeName, with the settings of the namespace grape.*. A
// setting of the registry lists the created tubes. In Grape's terms, a running job is retained, and a dead one has
// failed. Every attempt counts as an execution, even if it was released. A job whose ttr expires becomes ready again,
// without a limit.
//
// Unlike in Grape, bodies may be any bytes, two concurrent consumers both get jobs, and a delete or finish that answers
// false does not change the job.
package grape
