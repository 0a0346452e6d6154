package alert

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/wakecall/wakecall/internal/registry"
)

// away is a host's connection to a store, which is interrupted while it is set.
type away struct {
	Storage
	hangs bool // instead of returning an error
	mu    sync.Mutex
	set   bool
	hung  int // calls
}

func (a *away) is(set bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.set = set
}

func (a *away) err(ctx context.Context) error {
	a.mu.Lock()
	set := a.set
	if set {
		a.hung++
	}
	a.mu.Unlock()
	switch {
	case set && a.hangs:
		<-ctx.Done()
		return ctx.Err()
	case set:
		return registry.ErrUnavailable
	}
	return nil
}

func (a *away) Sync(ctx context.Context, r Report) (Shared, error) {
	if err := a.err(ctx); err != nil {
		return Shared{}, err
	}
	return a.Storage.Sync(ctx, r)
}

func (a *away) Save(ctx context.Context, c *Changes) error {
	if err := a.err(ctx); err != nil {
		return err
	}
	return a.Storage.Save(ctx, c)
}

func (a *away) Resign(ctx context.Context, process string) error {
	if err := a.err(ctx); err != nil {
		return err
	}
	return a.Storage.Resign(ctx, process)
}

// memory is a store in memory, on the clock of the test.
type memory struct {
	leader    string
	until     time.Time
	lastID    uint64
	open      map[string]Alert // by key
	ended     []Alert
	receivers map[string][]byte // JSON
	reports   map[string]report
	handled   map[string]Handling
	waiting   map[string]Delivery
}

type report struct {
	findings []Finding
	at       time.Time
}

func newMemory() *memory {
	return &memory{
		open: map[string]Alert{}, receivers: map[string][]byte{}, reports: map[string]report{},
		handled: map[string]Handling{}, waiting: map[string]Delivery{},
	}
}

func (m *memory) Sync(_ context.Context, r Report) (Shared, error) {
	if m.leader == r.Process || !time.Now().Before(m.until) {
		m.leader, m.until = r.Process, time.Now().Add(leaseTTL)
	}
	m.reports[r.Host] = report{r.Findings, time.Now()}
	sh := Shared{Leads: m.leader == r.Process, Receivers: map[string]*Notified{}}
	for host, x := range m.reports {
		if host != r.Host && time.Since(x.at) < reportLife {
			sh.Others = append(sh.Others, x.findings...)
		}
	}
	for key, a := range m.open {
		a.Handling = m.handled[key]
		sh.Open = append(sh.Open, a)
	}
	for name, text := range m.receivers {
		n := &Notified{}
		if err := json.Unmarshal(text, n); err != nil {
			return sh, err
		}
		sh.Receivers[name] = n
	}
	if sh.Leads {
		sh.Waiting = slices.Collect(maps.Values(m.waiting))
	}
	return sh, nil
}

func (m *memory) Save(_ context.Context, c *Changes) error {
	for _, a := range c.Alerts {
		stored := *a
		if stored.ID == 0 {
			m.lastID++
			stored.ID = m.lastID
		}
		if stored.EndedAt != nil {
			delete(m.open, a.Key)
			m.ended = append(m.ended, stored)
			continue
		}
		m.open[a.Key] = stored
	}
	for name, n := range c.Receivers {
		text, err := json.Marshal(n)
		if err != nil {
			return err
		}
		m.receivers[name] = text
	}
	for _, d := range c.Deliveries {
		m.waiting[d.ID] = d
		if d.final() {
			delete(m.waiting, d.ID)
		}
	}
	return nil
}

func (m *memory) Resign(_ context.Context, process string) error {
	if m.leader == process {
		m.until = time.Time{}
	}
	return nil
}
