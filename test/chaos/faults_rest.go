package chaos

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"

	"github.com/wakecall/wakecall/test/harness"
)

// diskSize is the size of each journal's disk: more than a run writes.
const diskSize = "1g"

func databaseKinds() []kind {
	return []kind{
		{"mysql killed", killDatabase}, {"mysql stopped", stopDatabase}, {"mysql schema locked", lockDatabase},
		{"mysql slow", slowDatabase},
		{"shard drained", drainShard},
	}
}

// drainShard drains a shard into the other one, and activates it again. It needs the database, so no other fault
// affects that meanwhile.
func drainShard(s *site, r *rand.Rand) fault {
	name := fmt.Sprintf("redis-%d", 1+r.IntN(len(s.shards)))
	put := func(state string) error {
		s.dbProxy.Set(harness.Trouble{})
		if code, output := s.hosts[0].Run("shard", "put", name, "--state", state); code != 0 {
			return fmt.Errorf("shard put %s --state %s exits %d: %s", name, state, code, output)
		}
		return nil
	}
	return fault{
		Name: "shard drained", Target: "mysql", Hold: between(r, 2*time.Second, 10*time.Second),
		Inject: func(context.Context) error { return put("draining") },
		Heal:   func(context.Context) error { return put("active") },
	}
}

func killDatabase(s *site, r *rand.Rand) fault {
	return fault{
		Name: "mysql killed", Target: "mysql", Hold: between(r, 0, 5*time.Second),
		Inject: func(context.Context) error { s.db.Kill9(); return nil },
		Heal:   func(context.Context) error { s.db.Start(); return nil },
	}
}

func stopDatabase(s *site, r *rand.Rand) fault {
	return fault{
		Name: "mysql stopped", Target: "mysql", Hold: between(r, time.Second, 9*time.Second),
		Inject: func(context.Context) error { s.db.Pause(); return nil },
		Heal:   func(context.Context) error { s.db.Resume(); return nil },
	}
}

// lockDatabase holds a lock on every table, so that nobody reads or writes any.
func lockDatabase(s *site, r *rand.Rand) fault {
	var db *sql.DB
	return fault{
		Name: "mysql schema locked", Target: "mysql", Hold: between(r, time.Second, 8*time.Second),
		Inject: func(ctx context.Context) (err error) {
			db = s.db.Connect(s.t, "wakecall")
			db.SetMaxOpenConns(1) // the connection holds the lock
			rows, err := db.QueryContext(ctx, "SHOW TABLES")
			if err != nil {
				return err
			}
			defer rows.Close()
			var locks []string
			for rows.Next() {
				var table string
				if err := rows.Scan(&table); err != nil {
					return err
				}
				locks = append(locks, "`"+table+"` WRITE")
			}
			if err := rows.Err(); err != nil {
				return err
			}
			_ = rows.Close() // it is read completely
			_, err = db.ExecContext(ctx, "LOCK TABLES "+strings.Join(locks, ", "))
			return err
		},
		Heal: func(context.Context) error { return db.Close() },
	}
}

func slowDatabase(s *site, r *rand.Rand) fault {
	trouble := harness.Trouble{Delay: between(r, 50*time.Millisecond, time.Second)}
	return fault{
		Name: "mysql slow", Target: "mysql network", Hold: between(r, time.Second, 8*time.Second),
		Inject: func(context.Context) error { s.dbProxy.Set(trouble); return nil },
		Heal:   func(context.Context) error { s.dbProxy.Set(harness.Trouble{}); return nil },
	}
}

// diskKinds need a small disk for each journal.
func diskKinds(s *site) []kind {
	if len(s.disks) == 0 {
		return nil
	}
	return []kind{{"journal's disk full", fillDisk}}
}

// fillDisk shrinks the disk to the size of its contents.
func fillDisk(s *site, r *rand.Rand) fault {
	n := r.IntN(len(s.disks))
	disk := s.disks[n]
	return fault{
		Name: "journal's disk full", Target: fmt.Sprintf("host %d journal", n+1),
		Hold: between(r, time.Second, 6*time.Second), Inject: func(context.Context) error { return disk.Fill() },
		Heal: func(context.Context) error { return disk.Free() },
	}
}

// endpointKinds make the endpoint of one topic fail, or stop the endpoints of all topics.
func endpointKinds() []kind {
	kinds := []kind{{"endpoints refuse", refuseCalls}}
	for _, e := range []struct {
		name string
		b    harness.Behaviour
	}{
		{"endpoint hangs", harness.Hang()}, {"endpoint drips", harness.Drip()}, {"endpoint resets", harness.Reset()},
		{"endpoint answers 500", harness.Status(http.StatusInternalServerError)},
		{"endpoint hangs up in mid-answer", harness.HalfAnswer()},
		{"endpoint asks to wait", harness.Status(http.StatusServiceUnavailable, "Retry-After", "2")},
		{"endpoint answers without end", harness.Huge(1<<40, func(int64) {})},
	} {
		kinds = append(kinds, badEndpoint(e.name, e.b))
	}
	return kinds
}

func badEndpoint(name string, b harness.Behaviour) kind {
	return kind{name, func(s *site, r *rand.Rand) fault {
		called := named(false)
		topic := called[r.IntN(len(called))]
		return fault{
			Name: name, Target: "endpoint of " + topic, Hold: between(r, 500*time.Millisecond, 5*time.Second),
			Inject: func(context.Context) error { s.endpoint.behave(topic, b); return nil },
			Heal:   func(context.Context) error { s.endpoint.behave(topic, healthy()[topic]); return nil },
		}
	}}
}

func refuseCalls(s *site, r *rand.Rand) fault {
	return fault{
		Name: "endpoints refuse", Target: "endpoints", Hold: between(r, 500*time.Millisecond, 5*time.Second),
		Inject: func(context.Context) error { s.endpoint.stop(); return nil },
		Heal:   func(context.Context) error { return s.endpoint.start() },
	}
}
