// Package queue keeps Wakecall's jobs in Redis.
//
// Everything that must be atomic is a Lua script in lua/, one file a script. This package is the only
// one that knows a key or a script; it knows nothing of topics' callbacks, of HTTP, or of the processes that use it.
package queue
