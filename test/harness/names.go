package harness

import (
	"context"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// ManyNames is a client that waits for many topics at once, other ones in each request. A gateway of lmstfy, or of
// delay-queue, receives it.
type ManyNames struct {
	URL     string // of lmstfy's namespace, or of delay-queue's pop
	Token   string // of lmstfy; "": it is delay-queue
	Names   int    // in each request
	Clients int
	Renewed time.Duration // each client makes one request in this time

	Waited  atomic.Int64 // requests that waited
	Refused sync.Map     // the answers to others
	named   atomic.Int64
}

// Run runs the clients until ctx ends. They begin one after the other, evenly over the time of a request.
func (m *ManyNames) Run(ctx context.Context) {
	transport := &http.Transport{MaxIdleConnsPerHost: m.Clients}
	defer transport.CloseIdleConnections()
	var all sync.WaitGroup
	for i := range m.Clients {
		all.Go(func() {
			select {
			case <-time.After(m.Renewed * time.Duration(i) / time.Duration(m.Clients)):
			case <-ctx.Done():
			}
			for ctx.Err() == nil {
				m.wait(ctx, &http.Client{Transport: transport})
			}
		})
	}
	all.Wait()
}

func (m *ManyNames) wait(ctx context.Context, c *http.Client) {
	ctx, cancel := context.WithTimeout(ctx, m.Renewed)
	defer cancel()
	names := make([]string, m.Names)
	for i := range names {
		names[i] = strconv.FormatInt(m.named.Add(1), 36)
	}
	list := strings.Join(names, ",")
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, m.URL, strings.NewReader(`{"topic":"`+list+`"}`))
	if m.Token != "" {
		req, err = http.NewRequestWithContext(ctx, http.MethodGet, m.URL+"/"+list+"?timeout=60", nil)
		req.Header.Set("X-Token", m.Token)
	}
	if err != nil {
		panic(err)
	}
	answer, err := c.Do(req)
	if err != nil {
		m.Waited.Add(1) // until its end
		return
	}
	defer func() { _ = answer.Body.Close() }()
	text, _ := io.ReadAll(answer.Body)
	m.Refused.Store(answer.Status+" "+string(text), true)
	<-ctx.Done()
}
