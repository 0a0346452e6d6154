package master

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

var errStopping = errors.New("the master is stopping")

// reload rereads the configuration and replaces the processes one by one.
func (m *Master) reload(ctx context.Context) error {
	m.reloads.Lock()
	defer m.reloads.Unlock()
	if ctx.Err() != nil {
		return errStopping
	}
	old := m.opts()
	next, err := old.reload()
	if err != nil {
		return fmt.Errorf("the configuration is unchanged: %w", err)
	}
	next.warnUnused()
	before := m.sockets()
	held, err := before.open(next.Roles, next.Passed)
	if err != nil {
		return fmt.Errorf("the configuration is unchanged: %w", err)
	}
	m.mu.Lock()
	m.options, m.held = next, held
	m.mu.Unlock()
	var errs []error
	for _, r := range append(m.removed(next.Roles), next.Roles...) {
		errs = append(errs, m.resize(ctx, r)...)
	}
	before.closeUnused(held)
	old.Logger.Info("reloaded", "errors", len(errs))
	return errors.Join(errs...)
}

// reload returns the new configuration, with the values that belong to this master.
func (o *Options) reload() (Options, error) {
	if o.Reload == nil {
		return Options{}, errors.New("this master cannot reload")
	}
	next, err := o.Reload()
	if err != nil {
		return Options{}, err
	}
	if next.DataDir != o.DataDir { // this master holds the lock and the sockets of the old one
		return Options{}, fmt.Errorf("data_dir is now %s; a reload cannot change it from %s: restart the master",
			next.DataDir, o.DataDir)
	}
	next.Executable, next.Reload, next.Kill, next.Ready, next.Logger = o.Executable, o.Reload, o.Kill, o.Ready, o.Logger
	next.Passed, next.Version, next.AnswerWithin = o.Passed, o.Version, o.AnswerWithin
	return next, next.setDefaults()
}

// removed returns the roles missing from a new configuration, with a count of zero.
func (m *Master) removed(next []RoleSpec) (list []RoleSpec) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, name := range m.order {
		if !slices.ContainsFunc(next, func(r RoleSpec) bool { return r.Name == name }) {
			list = append(list, RoleSpec{Name: name})
		}
	}
	return list
}

// resize applies a new configuration and a new number of processes to a role.
func (m *Master) resize(ctx context.Context, r RoleSpec) (errs []error) {
	m.mu.Lock()
	slots := slices.Clone(m.slots[r.Name])
	m.mu.Unlock()
	keep := slots[:min(len(slots), r.Count)]
	surplus := slots[len(keep):]
	for _, s := range keep {
		if err := s.replace(ctx, r); err != nil {
			errs = append(errs, err)
		}
	}
	for _, s := range surplus {
		s.cancel()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.leaving = append(slices.DeleteFunc(m.leaving, (*slot).hasEnded), surplus...)
	m.slots[r.Name] = slices.Clip(keep)
	m.fill(r)
	return errs
}

// fill starts missing processes of a role. The caller holds m.mu.
func (m *Master) fill(r RoleSpec) {
	if !slices.Contains(m.order, r.Name) {
		m.order = append(m.order, r.Name)
	}
	for n := len(m.slots[r.Name]); n < r.Count; n++ {
		m.slots[r.Name] = append(m.slots[r.Name], m.newSlot(r, n+1))
	}
}

// restart replaces one process. Number 0 means the only process of the role. It waits for a running reload, which may
// change the configuration of the process.
func (m *Master) restart(ctx context.Context, role string, number int) error {
	m.reloads.Lock()
	defer m.reloads.Unlock()
	m.mu.Lock()
	slots := m.slots[role]
	m.mu.Unlock()
	if number == 0 && len(slots) == 1 {
		number = 1
	}
	if number < 1 || number > len(slots) {
		return fmt.Errorf("no %s %d", role, number)
	}
	s := slots[number-1]
	return s.replace(ctx, s.specification())
}
