package child

import "encoding/json"

// Env marks a process started by a master.
const Env = "WAKECALL_CHILD"

// Boot is the first message. It contains the child's role; only the role interprets Config.
type Boot struct {
	Role              string          `json:"role"`
	Number            int             `json:"number"`
	Config            json.RawMessage `json:"config"`
	Listeners         []string        `json:"listeners"` // names of the sockets from fd 4 on
	ShutdownTimeoutMS int64           `json:"shutdown_timeout_ms"`
	// FreePorts has the addresses of all roles' listeners whose configured port is 0, by configuration key.
	FreePorts map[string]string `json:"free_ports,omitempty"`
}

// Message is a line from the master.
type Message struct {
	Boot *Boot  `json:"boot,omitempty"`
	ID   int64  `json:"id,omitempty"`
	Ask  string `json:"ask,omitempty"`
	// Replaced means that a successor already serves, so the child need not close its clients' connections early.
	Replaced bool `json:"replaced,omitempty"`
}

// Reply is a line from the child.
type Reply struct {
	Ready   bool            `json:"ready,omitempty"`
	Version string          `json:"version,omitempty"` // version of the child's binary, with Ready
	ID      int64           `json:"id,omitempty"`
	Metrics []byte          `json:"metrics,omitempty"` // delimited protocol buffers: text has no native histograms
	Status  json.RawMessage `json:"status,omitempty"`
}

// Requests of a master.
const (
	AskMetrics = "metrics"
	AskStatus  = "status"
)
