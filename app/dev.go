package app

import (
	"context"
	"net"
	"time"

	"github.com/wakecall/wakecall/conf"
	"github.com/wakecall/wakecall/dispatcher"
	"github.com/wakecall/wakecall/internal/observe"
	"github.com/wakecall/wakecall/internal/queue/devclock"
	"github.com/wakecall/wakecall/internal/queue/recurring"
	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/internal/store"
	"github.com/wakecall/wakecall/master"
)

// RoleDev is the only role of an installation for tests: it serves the API and moves the clock.
const RoleDev = "dev"

// DevOptions returns the options of a master that runs an installation for tests.
func DevOptions(cfg *conf.Config, version string, shards []registry.Shard) (master.Options, error) {
	o, err := MasterOptions(cfg, version, shards)
	if err != nil {
		return o, err
	}
	for _, r := range o.Roles {
		if r.Name == RoleServer {
			r.Name = RoleDev
			o.Roles = []master.RoleSpec{r}
			break
		}
	}
	return o, nil
}

// newDev returns the role of an installation for tests.
func (p *parts) newDev(l net.Listener) (role, error) {
	caller, err := p.newCaller()
	if err != nil {
		return role{}, err
	}
	d := dispatcher.New(p.dispatcherOptions(caller))
	bucket := func() *store.Bucket { return p.queue.Shards.Buckets()[0] }
	var schedules *recurring.Driven
	p.dev = devclock.New(devclock.Options{
		Clock: p.clock, Bucket: bucket,
		Schedules: func(ctx context.Context) (time.Time, error) {
			if err := p.registry.EndPauses(ctx, p.clock.Now()); err != nil {
				return time.Time{}, err
			}
			next, err := schedules.Step(ctx)
			if end := p.registry.Snapshot().NextPauseEnd(); next.IsZero() || !end.IsZero() && end.Before(next) {
				next = end
			}
			return next, err
		},
		Call: func(ctx context.Context, j *store.Job, now time.Time) devclock.Result {
			return d.CallOne(ctx, observe.Bucket{Bucket: bucket()}, j, now)
		},
	})
	r, err := p.newServer(l, nil)
	if err != nil {
		return role{}, err
	}
	serve := r.run
	r.run = func(ctx context.Context) error {
		defer caller.Close()
		p.awaitShards(ctx)
		schedules = p.recurring().Driven(bucket())
		if err := p.dev.Start(ctx); err != nil {
			return err
		}
		return serve(ctx)
	}
	return r, nil
}
