package queue

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// A host is absent from a bucket while only its journal may have changes that the data lost (see open_bucket.lua). The
// bucket is open, but an id that it does not have may be in that journal: requests for it are refused until the
// host has replayed its journal, or an operator says that it will not be back. The same holds for a push that keeps an
// existing job. Pushes that replace one, and those whose id was just made, are newer than all that the journal has.

// Absent is the reason of an UnavailableError about such an id.
const Absent = "absent"

// absentRetry is how long a client should wait before it repeats a request that only an absent host can answer.
const absentRetry = 10 * time.Second

func isAbsent(err error) bool {
	un, ok := errors.AsType[*UnavailableError](err)
	return ok && un.Reason == Absent
}

// awaits returns an error that names the absent hosts of a bucket, nil without any.
func (s *Shard) awaits(ctx context.Context, bucket int) error {
	began := time.Now()
	hosts, err := s.client.HKeys(ctx, prefix(bucket)+"absent").Result()
	if err != nil {
		return s.failed(ctx, bucket, began, err)
	}
	if len(hosts) == 0 {
		return nil
	}
	slices.Sort(hosts)
	names := strings.Join(hosts, " ")
	return &UnavailableError{Reason: Absent, RetryAfter: absentRetry, Err: fmt.Errorf(
		"shard %s has lost data, and only the journal of %s may have this job: start that host, or, if it will not be "+
			"back, run wakecall host forget %s", s.name, strings.Join(hosts, " or "), names)}
}

// storeEarly stores those of the pushes that no journal can know of or that replace what it knows, when a bucket is
// being compared or has absent hosts. why is the error of the others, unless their job exists.
func (s *Shard) storeEarly(
	ctx context.Context, bucket int, d Durability, pushes []Push, why *UnavailableError,
) (results []Result, unsafe error) {
	results = failAll(len(pushes), why)
	var which, others []int
	var early []Push
	for i := range pushes {
		if pushes[i].Fresh || pushes[i].OnDuplicate == Replace {
			which, early = append(which, i), append(early, pushes[i])
		} else {
			others = append(others, i)
		}
	}
	if why.Reason == Absent && len(others) > 0 {
		s.findEarly(ctx, bucket, pushes, others, results)
	}
	if len(early) == 0 {
		return results, nil
	}
	stored, unsafe, err := s.storeBy(ctx, pushEarlyScript, bucket, d, early)
	if err != nil {
		stored = failAll(len(early), err)
	}
	for k, i := range which {
		results[i] = stored[k]
	}
	return results, unsafe
}

// findEarly answers pushes whose job exists, and the others with the names of the absent hosts.
func (s *Shard) findEarly(ctx context.Context, bucket int, pushes []Push, which []int, results []Result) {
	refs := make([]Ref, len(which))
	for k, i := range which {
		refs[k] = Ref{pushes[i].Topic, pushes[i].ID}
	}
	found, err := s.getLive(ctx, refs)
	if err == nil {
		err = s.awaits(ctx, bucket)
	}
	for k, i := range which {
		switch {
		case found[k] != nil:
			results[i] = duplicateOf(&pushes[i], found[k])
		case err != nil:
			results[i].Err = err
		}
	}
}

// Host is what the shards know about a host.
type Host struct {
	Name   string    `json:"host"`
	Seen   time.Time `json:"seen,omitzero"`         // when it attended last
	State  string    `json:"state"`                 // running, stopped, silent or forgotten
	Absent []string  `json:"absent_from,omitempty"` // shards that wait for its journal
}

// States of a host.
const hostRunning, hostSilent = "running", "silent"

// HostForgotten is the state of a host that will not be back.
const HostForgotten = "forgotten"

// silentAfter is how long a running host may be silent: it attends at least every ten seconds.
const silentAfter = 30 * time.Second

// Hosts lists the hosts that the shards know, by name.
func Hosts(ctx context.Context, q *Queue) ([]Host, error) {
	hosts := map[string]*Host{}
	err := q.eachBucket(func(s *Shard, bucket int) error {
		began := time.Now()
		clock, err := s.clock(ctx, bucket)
		if err != nil {
			return s.failed(ctx, bucket, began, err)
		}
		seen, err := s.client.HGetAll(ctx, prefix(bucket)+"hosts").Result()
		if err != nil {
			return s.failed(ctx, bucket, began, err)
		}
		for field, value := range seen {
			if name, is := strings.CutPrefix(field, "at "); is {
				hostOf(hosts, name).add(number(value), seen["state "+name], clock)
			}
		}
		away, err := s.client.HKeys(ctx, prefix(bucket)+"absent").Result()
		if err != nil {
			return s.failed(ctx, bucket, began, err)
		}
		for _, name := range away {
			if h := hostOf(hosts, name); !slices.Contains(h.Absent, s.name) {
				h.Absent = append(h.Absent, s.name)
			}
		}
		return nil
	})
	list := make([]Host, 0, len(hosts))
	for _, name := range slices.Sorted(maps.Keys(hosts)) {
		list = append(list, *hosts[name])
	}
	return list, err
}

func hostOf(hosts map[string]*Host, name string) *Host {
	if hosts[name] == nil {
		hosts[name] = &Host{Name: name, State: hostSilent}
	}
	return hosts[name]
}

// add merges what attend.lua and open_bucket.lua have stored about the host.
func (h *Host) add(at int64, state string, now time.Time) {
	seen := time.UnixMilli(at).UTC()
	if !seen.After(h.Seen) {
		return
	}
	h.Seen = seen
	switch {
	case state == HostForgotten:
		h.State = HostForgotten
	case state == "left":
		h.State = "stopped"
	case now.Sub(seen) > silentAfter:
		h.State = hostSilent
	default:
		h.State = hostRunning
	}
}

// ForgetHost tells all shards that a host will not be back. What only its journal has is lost, and should it return, it
// does not replay its journal. It must not be running. A bucket that is being compared cannot forget it.
func ForgetHost(ctx context.Context, q *Queue, host string) error {
	hosts, err := Hosts(ctx, q)
	if err != nil {
		return fmt.Errorf("forget host %s: %w", host, err)
	}
	at := slices.IndexFunc(hosts, func(h Host) bool { return h.Name == host })
	switch {
	case at < 0:
		return fmt.Errorf("no shard knows a host %s", host)
	case hosts[at].State == hostRunning:
		return fmt.Errorf("host %s is running: stop it first", host)
	}
	return q.eachBucket(func(s *Shard, bucket int) error {
		o, err := s.OpenBucket(ctx, bucket, ComparedBy{Host: host, Mode: ComparedForget})
		if err == nil && !o.Open {
			err = s.unavailable(comparing, errors.New("it is being compared with the journals"))
		}
		return err
	})
}
