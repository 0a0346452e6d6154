// Package delayqueue serves clients of ouqiang/delay-queue, and of the JSON commands of Youzan's delay queue, whose
// design delay-queue follows.
//
//	POST /push     {"topic", "id", "delay": s, "ttr": s, "body"}                         data: null
//	POST /pop      {"topic": "a,b,c"}: the first of these topics with a ready job        data: {"id", "body"} or null
//	POST /finish   {"id"}                                                                data: null
//	POST /delete   {"id"}                                                                data: null
//	POST /get      {"id"}                                                                data: the job or null
//	POST /command  {"command": "add" | "pop" | "finish" | "delete", …}                   see youzan.go
//
// Every answer has status 200 and the form {"code", "message", "data"}; code 1 is a failure. Requests need no token, so
// the listener belongs on the loopback interface.
//
// Topic T is the pull topic delayqueue.T, escaped by registry.EscapeName, with the settings of the namespace
// delayqueue.*. A job that is not finished within its TTR becomes ready again, without a limit.
//
// # Ids
//
// An id is unique across all topics: finish, delete and get name no topic. In Wakecall ids are unique per topic, so the
// gateway searches all topics that have jobs. It first tries the topic where it last saw the id, because most workers
// finish a job through the gateway from which they popped it. Two simultaneous pushes of one id to different topics may
// both be stored.
//
// Unlike in delay-queue, a job is never due early, a body reaches the worker as it was pushed (including spaces at its
// ends), and a pop that encounters a deleted job waits for the next one.
package delayqueue
