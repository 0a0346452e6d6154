package queue

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// A server of a shard may have lost writes that an earlier one answered: the last second of its append-only file, what
// a replica did not have yet, or everything. Each host compares its journal with what the shard holds, pushes and
// deletes again, and then records the run id of the server in the shard's data. Until every host that was active
// lately has done so, dispatchers reserve no jobs from that server (Options.Hold): a job whose deletion was lost would
// be called.

// Check is what a host has recorded in a shard about its journal.
type Check struct {
	Host   string
	Server string    // run id of the server; of a Cluster's masters, joined
	Until  time.Time // by the host's clock: what its journal had before then was in the data when this was recorded
	At     time.Time // by the shard's clock, when it was recorded
}

func seenKey() string { return prefix(0) + "seen" }
func whenKey() string { return prefix(0) + "when" }

// Server is the server that answers for a shard.
type Server struct {
	RunID   string    // of a Cluster's masters, joined
	Started time.Time // by its clock, a second late at most; the latest of a Cluster's
	Now     time.Time // its clock
}

// Checks returns which server answers and what hosts have recorded, in the order of their names. A shard that lost all
// of its data has none.
func (s *Shard) Checks(ctx context.Context) (Server, []Check, error) {
	h := ShardHealth{}
	if err := s.info(ctx, &h); err != nil {
		return Server{}, nil, err
	}
	checks, err := readChecks(ctx, s.client)
	if err != nil {
		return Server{}, nil, fmt.Errorf("read what hosts have seen of shard %s: %w", s.name, err)
	}
	return Server{RunID: h.RunID, Started: h.started, Now: h.now}, checks, nil
}

func readChecks(ctx context.Context, c redis.Cmdable) ([]Check, error) {
	pipe := c.Pipeline()
	said, when := pipe.HGetAll(ctx, seenKey()), pipe.HGetAll(ctx, whenKey())
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, err
	}
	var checks []Check
	for host, v := range said.Val() {
		ms, server, _ := strings.Cut(v, " ")
		c := Check{Host: host, Server: server, Until: parseMillis(ms)}
		if c.At = c.Until; when.Val()[host] != "" { // an older version says it without
			c.At = parseMillis(when.Val()[host])
		}
		checks = append(checks, c)
	}
	slices.SortFunc(checks, func(a, b Check) int { return strings.Compare(a.Host, b.Host) })
	return checks, nil
}

func parseMillis(text string) time.Time {
	n, _ := strconv.ParseInt(text, 10, 64)
	return time.UnixMilli(n).UTC()
}

// NoteCheck says that a host's journal agrees with what the shard holds. was is what the host had said before, the
// zero Check for nothing: false means that the server does not know of that, because it is another one or has
// forgotten it, and nothing was done.
func (s *Shard) NoteCheck(ctx context.Context, was, c Check) (bool, error) {
	v, err := s.again(ctx, 0, "seen", c.Host, was.text(), c.text())
	if err != nil {
		return false, fmt.Errorf("note what host %s has seen of shard %s: %w", c.Host, s.name, err)
	}
	return v == int64(1), nil
}

func (c Check) text() string {
	if c.Host == "" {
		return ""
	}
	return fmt.Sprintf("%d %s", c.Until.UnixMilli(), c.Server)
}

// What one host accepted, another may have changed or ended. A host that misses a job asks the others through the
// server (Ask, which reaches them as WakeAsk). They tell in ends what has ended or was changed by their journals, and
// then in told that this was all. Both go after a while.

const (
	endsFor    = 10 * time.Minute
	askPayload = "A"
)

func endsKey() string { return prefix(0) + "ends" }
func toldKey() string { return prefix(0) + "told" }

// Ask asks the other hosts what has ended; they answer under the same words.
func (s *Shard) Ask(ctx context.Context, about string) error {
	if err := s.client.Publish(ctx, wakeChannel(0), askPayload+about).Err(); err != nil {
		return fmt.Errorf("ask other hosts through shard %s what has ended: %w", s.name, err)
	}
	return nil
}

// TellEnds adds to what other hosts can ask for by Ends.
func (s *Shard) TellEnds(ctx context.Context, ends map[string]string) error {
	pipe := s.client.Pipeline()
	pipe.HSet(ctx, endsKey(), ends)
	pipe.Expire(ctx, endsKey(), endsFor)
	if _, err := pipe.Exec(ctx); err != nil {
		return fmt.Errorf("tell other hosts through shard %s what has ended: %w", s.name, err)
	}
	return nil
}

// NoteTold records that a host has told all that its journal knows.
func (s *Shard) NoteTold(ctx context.Context, host, about string) error {
	pipe := s.client.Pipeline()
	pipe.HSet(ctx, toldKey(), host+" "+about, 1)
	pipe.Expire(ctx, toldKey(), endsFor)
	if _, err := pipe.Exec(ctx); err != nil {
		return fmt.Errorf("tell other hosts through shard %s that all is told: %w", s.name, err)
	}
	return nil
}

// Told returns which of these hosts have told all that their journals know.
func (s *Shard) Told(ctx context.Context, hosts []string, about string) ([]string, error) {
	fields := make([]string, len(hosts))
	for i, h := range hosts {
		fields[i] = h + " " + about
	}
	values, err := s.client.HMGet(ctx, toldKey(), fields...).Result()
	if err != nil {
		return nil, fmt.Errorf("ask shard %s which hosts have told: %w", s.name, err)
	}
	var told []string
	for i, v := range values {
		if v != nil {
			told = append(told, hosts[i])
		}
	}
	return told, nil
}

// Ends returns what hosts have told under these names, "" for nothing.
func (s *Shard) Ends(ctx context.Context, names []string) ([]string, error) {
	values, err := s.client.HMGet(ctx, endsKey(), names...).Result()
	if err != nil {
		return nil, fmt.Errorf("ask shard %s what other hosts know: %w", s.name, err)
	}
	list := make([]string, len(names))
	for i, v := range values {
		list[i], _ = v.(string)
	}
	return list, nil
}

// ForgetCheck is for a host that is no more.
func (s *Shard) ForgetCheck(ctx context.Context, host string) error {
	pipe := s.client.Pipeline()
	pipe.HDel(ctx, seenKey(), host)
	pipe.HDel(ctx, whenKey(), host)
	if _, err := pipe.Exec(ctx); err != nil {
		return fmt.Errorf("forget what host %s has seen of shard %s: %w", host, s.name, err)
	}
	return nil
}

// lately is how much older than the newest check a host's check may be for the host to count as active.
const lately = time.Minute

// compared reports whether all active hosts have compared their journals with this server.
func compared(server string, checks []Check) bool {
	var newest time.Time
	for _, c := range checks {
		if c.At.After(newest) {
			newest = c.At
		}
	}
	return !slices.ContainsFunc(checks, func(c Check) bool { return c.Server != server && newest.Sub(c.At) < lately })
}

// meet is called on every new connection, before any command. The server may be another one than before.
func (s *Shard) meet(ctx context.Context, c *redis.Conn) error {
	info, err := c.Info(ctx, "server").Result()
	if err != nil {
		return fmt.Errorf("ask shard %s which server it is: %w", s.name, err)
	}
	about := parseInfo(info)
	if about["redis_mode"] == "sentinel" { // which is asked for the master's address through the same client
		return nil
	}
	server := about["run_id"]
	s.meeting.Lock()
	defer s.meeting.Unlock()
	if s.server == server {
		return nil
	}
	checks, err := readChecks(ctx, c)
	if err != nil {
		return fmt.Errorf("read what hosts have seen of shard %s: %w", s.name, err)
	}
	s.server = server
	if compared(server, checks) || s.held.Swap(true) {
		return nil
	}
	s.start(s.awaitChecks)
	return nil
}

const checksEvery = 50 * time.Millisecond

// awaitChecks lets jobs be reserved again when hosts have compared their journals, or took too long.
func (s *Shard) awaitChecks() {
	defer s.held.Store(false)
	ctx, cancel := context.WithTimeout(s.ctx, s.hold)
	defer cancel()
	t := time.NewTicker(checksEvery)
	defer t.Stop()
	for {
		if server, checks, err := s.Checks(ctx); err == nil && compared(server.RunID, checks) {
			return
		}
		select {
		case <-t.C:
		case <-ctx.Done():
			if s.ctx.Err() == nil {
				s.log.Warn("no host has compared its journal with this new server in time; its jobs are called anyway",
					"waited", s.hold)
			}
			return
		}
	}
}

// comparing is what Reserve answers meanwhile.
func (s *Shard) comparing() error {
	return &UnavailableError{Reason: "comparing", RetryAfter: time.Second,
		Err: fmt.Errorf("shard %s: another server answers; its data is compared with the journal first", s.name)}
}
