package admin

// The limits that tests reach.
const (
	MaxConns    = maxConns
	IdleTimeout = idleTimeout
)
