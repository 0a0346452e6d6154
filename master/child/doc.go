// Package child implements the child's side of the protocol between the master and the processes that it starts.
//
// Both sides exchange lines of JSON over a socket pair. fd 3 is the child's end; the sockets that it serves start at fd
// 4.
//
//	master ──▶ {"boot":{role, number, config, listeners, shutdown_timeout_ms}}    once, first
//	child  ──▶ {"ready":true,"version":"v1.2.3"}                                  when it serves
//	master ──▶ {"id":7,"ask":"metrics"}        child ──▶ {"id":7,"text":"…"}       Prometheus text
//	master ──▶ {"id":8,"ask":"status"}         child ──▶ {"id":8,"status":{…}}
//	master ──▶ {"replaced":true}                                                  a successor serves: stop gracefully
//	end of file at the child                                                      the master died: stop gracefully
//
// The master may be older than its children, because a reload starts them from a new binary. So the protocol may only
// be extended.
package child
