// Package delayqueue serves the clients of ouqiang/delay-queue, and those of the JSON commands of Youzan's delay queue,
// which it follows.
//
//	POST /push     {"topic", "id", "delay": s, "ttr": s, "body"}                         data: null
//	POST /pop      {"topic": "a,b,c"}: the first topic named that has a ready job        data: {"id", "body"} or null
//	POST /finish   {"id"}                                                                data: null
//	POST /delete   {"id"}                                                                data: null
//	POST /get      {"id"}                                                                data: the job or null
//	POST /command  {"command": "add" | "pop" | "finish" | "delete", …}                   see youzan.go
//
// Every answer has status 200 and is {"code", "message", "data"}; code 1 is a failure. No request needs a token, so the
// listener belongs on the loopback interface.
//
// Topic T is the pull topic delayqueue.T, escaped by registry.EscapeName, with the settings of the namespace
// delayqueue.*. A job that is not finished within its TTR is ready again, without a limit.
//
// # Ids
//
// An id is unique over all topics, and finish, delete and get name no topic. Wakecall's ids are unique in their topic,
// so the topic of an id is searched for in all topics that have jobs. Before the search the gateway tries the topic
// where it met the id last: a worker mostly finishes what it popped here. Two pushes of one id to different topics at
// the same moment may both be stored.
//
// Unlike delay-queue, a job is never due early, a body reaches the worker as it was pushed (spaces at its ends too),
// and a pop waits for the next job when the one it met was deleted.
package delayqueue
