// Package master starts Wakecall's processes, keeps them running and holds their listening sockets.
//
//	wakecall up ── master ─┬─ redis-server (managed, adopted if an earlier master left it)
//	   master.lock         ├─ wakecall: server          ◀── listening socket, held by the master
//	   master.sock (ps)    ├─ wakecall: timer 1
//	   /metrics            ├─ wakecall: dispatcher 1, 2
//	                       └─ wakecall: redis-checker
//
// It does no business work. A process that dies is started again after 100 ms, 200 ms … up to 30 s while it keeps
// dying. A reload starts each successor before it tells the predecessor to stop; because the master holds the sockets,
// no connection is refused meanwhile.
package master
