// Package child is a process's side of the talk with the master that started it.
//
// The two ends of a socket pair speak lines of JSON. fd 3 is the child's end; the sockets it serves follow from fd 4.
//
//	master ──▶ {"boot":{role, number, config, listeners, shutdown_timeout_ms}}    once, first
//	child  ──▶ {"ready":true,"version":"v1.2.3"}                                  when it serves
//	master ──▶ {"id":7,"ask":"metrics"}        child ──▶ {"id":7,"text":"…"}       Prometheus text
//	master ──▶ {"id":8,"ask":"status"}         child ──▶ {"id":8,"status":{…}}
//	end of file at the child                                                      the master is gone: stop gracefully
package child
