package harness

import (
	"github.com/wakecall/wakecall/test/harness/proxy"
	"github.com/wakecall/wakecall/test/redistest"
)

// The servers and the proxy are in packages of their own, which the tests of single packages use, too.
type (
	// Redis is a redis-server.
	Redis = redistest.Server
	// RedisOptions describe how a redis-server is started.
	RedisOptions = redistest.Options
	// Proxy forwards TCP connections.
	Proxy = proxy.Proxy
	// Trouble describes the faults of a Proxy.
	Trouble = proxy.Trouble
)

// StartRedis and StartProxy start one that ends with the test.
var (
	StartRedis = redistest.Start
	StartProxy = proxy.Start
)
