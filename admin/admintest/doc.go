// Package admintest serves a web admin to tests, on a real registry and a queue that is a fake or a private
// redis-server.
package admintest
