package dispatcher

import "sync"

// deleted reports whether an unknown topic was deleted. It queries the audit trail once per revision of the registry,
// however many of the topic's jobs are handled concurrently.
func (d *Dispatcher) deleted(name string) (bool, error) {
	d.unknown.asking.Lock()
	defer d.unknown.asking.Unlock()
	revision := d.opts.Topics().Revision
	if u := d.unknown.at(name, revision); u != nil && u.asked {
		return u.deleted, nil
	}
	deleted, err := d.opts.Deleted(d.calls, name)
	if err != nil {
		return false, err
	}
	if !deleted {
		d.opts.Logger.Error("topic has jobs but is not in the registry, and its deletion is not in the audit trail; "+
			"its jobs wait until it is registered again", "topic", name)
	}
	d.unknown.store(name, unknown{revision, true, deleted})
	return deleted, nil
}

// unknowns holds topics that were not found.
type unknowns struct {
	asking sync.Mutex // held during a query of the audit trail, whose result serves all that wait
	mu     sync.Mutex // guards byName
	byName map[string]unknown
}

// maxUnknown bounds the topics that are remembered. Above it, they are forgotten.
const maxUnknown = 20000

type unknown struct {
	revision       int64 // of the registry when it was not found
	asked, deleted bool
}

// at returns what is known about an unknown topic at a revision, or nil.
func (u *unknowns) at(name string, revision int64) *unknown {
	u.mu.Lock()
	defer u.mu.Unlock()
	if k, ok := u.byName[name]; ok && k.revision == revision {
		return &k
	}
	return nil
}

// store stores k, unless the result of the audit trail is already stored for the same revision.
func (u *unknowns) store(name string, k unknown) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if was := u.byName[name]; was.asked && was.revision == k.revision {
		return
	}
	if u.byName == nil || len(u.byName) > maxUnknown {
		u.byName = map[string]unknown{}
	}
	u.byName[name] = k
}
