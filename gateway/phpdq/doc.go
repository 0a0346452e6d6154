// Package phpdq serves clients of php-delayqueue, which add, get and delete jobs of push topics.
//
// A frame is four ASCII digits, the number of bytes that follow, and JSON of at most 9,999 bytes. A connection carries
// any number of requests, each answered by one frame in one write. A frame that is not JSON, or does not arrive in
// time, ends the connection; an unknown command gets no answer.
//
//	{"cmd":"add","topic":T,"id":I,"body":{…},"fix_time":"YYYY-MM-DD hh:mm:ss"}   fix_time is optional
//	{"cmd":"get","topic":T,"id":I}
//	{"cmd":"del","topic":T,"id":I}
//	{"code":1,"msg":"succ","data":[]}   {"code":0,"msg":"fail","data":[]}
//
// Topics are looked up in lower case. If the id exists, add replaces the job. Dead jobs are neither found nor deleted,
// so that people can handle them.
package phpdq
