package alert

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/wakecall/wakecall/internal/disk"
	"github.com/wakecall/wakecall/internal/registry/database"
)

// knownFile is the file in data_dir with the alerts that the host's redis-checker knows.
const knownFile = "alerts.json"

// knownEvery is how often the file is written while the store answers. While it does not, each round writes it.
const knownEvery = 30 * time.Second

// Known are the alerts that a host knew at a time: open ones and, during an outage of the store, those that ended in
// it.
type Known struct {
	At     time.Time `json:"at"`
	Alerts []*Alert  `json:"alerts"`
}

// remember writes the file, which the admin of this host shows while the store is unavailable.
func (a *Alerts) remember(synced bool, now time.Time) {
	if a.opts.Dir == "" || synced && now.Sub(a.remembered) < knownEvery {
		return
	}
	a.remembered = now
	err := disk.Replace(filepath.Join(a.opts.Dir, knownFile), func(f *os.File) error {
		return json.NewEncoder(f).Encode(Known{now, a.known()})
	})
	if err != nil {
		a.opts.Logger.Warn("write the alerts that the admin shows without the database", "error", err)
	}
}

// In returns the store for a host with a data_dir. List then works while the database is unavailable.
func (s *Store) In(dir string) *Store { return &Store{db: s.db, dir: dir} }

// List is ListAlerts while the database is available. Otherwise it returns what this host's redis-checker knows, and
// the time as of which it does.
func (s *Store) List(ctx context.Context, f Filter) (list []Alert, at time.Time, err error) {
	list, err = s.ListAlerts(ctx, f)
	if s.dir == "" || !errors.Is(err, database.ErrUnavailable) {
		return list, at, err
	}
	text, readErr := os.ReadFile(filepath.Join(s.dir, knownFile))
	var known Known
	if readErr != nil || json.Unmarshal(text, &known) != nil {
		return nil, at, err
	}
	for _, a := range known.Alerts {
		if f.Ended == (a.EndedAt != nil) && (f.Kind == "" || f.Kind == a.Kind) &&
			(f.Topic == "" || f.Topic == a.Topic) && f.may(a) {
			list = append(list, *a)
		}
	}
	slices.SortFunc(list, WorstFirst)
	return list[:min(len(list), database.Limit(f.Limit))], known.At, nil
}
