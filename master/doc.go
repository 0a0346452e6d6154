// Package master starts Wakecall's processes, keeps them running and holds their listening sockets.
//
//	wakecall up ── master ─┬─ redis-server (managed, adopted if an earlier master left it)
//	   master.lock         ├─ wakecall: server          ◀── listening socket, held by the master
//	   master.sock (ps)    ├─ wakecall: timer 1
//	   /metrics            ├─ wakecall: dispatcher 1, 2
//	                       └─ wakecall: redis-checker
//
// The master does no business work. It restarts a process that dies, after 100 ms, then 200 ms … up to 30 s if it keeps
// dying, and kills one that hangs. A reload starts each successor before it stops the predecessor. Because the master
// holds the sockets, no connection is refused meanwhile.
package master
