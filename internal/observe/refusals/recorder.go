package refusals

import (
	"context"
	"crypto/rand"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"gorm.io/gorm"

	"github.com/wakecall/wakecall/internal/registry/database"
)

const (
	saveEvery = 2 * time.Second
	gap       = 10 * time.Minute // longest time between two refusals of one streak
	kept      = 24 * time.Hour   // after the last refusal
	mostNamed = 100              // topics and reasons of a process in a streak
)

// row has the refusals that a process counted in a streak.
type row struct {
	ID     string `gorm:"primaryKey"`
	LastAt time.Time
	Counts []Count `gorm:"serializer:json"`
}

func (row) TableName() string { return "refused_pushes" }

// Recorder counts the refused pushes of a process. Add may be called from any goroutine; Run stores the counts.
type Recorder struct {
	log     *slog.Logger
	unsaved chan struct{} // has a value while there are counts to store

	mu     sync.Mutex
	id     string
	last   time.Time
	counts map[key]Count
}

type key struct{ topic, reason string }

// NewRecorder returns a Recorder.
func NewRecorder(log *slog.Logger) *Recorder {
	return &Recorder{log: log, unsaved: make(chan struct{}, 1)}
}

// Add counts a refused push. The pushes of the topics after the first mostNamed are counted together.
func (r *Recorder) Add(topic, reason string) {
	now := database.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	if now.Sub(r.last) > gap && len(r.unsaved) == 0 {
		r.id, r.counts = rand.Text(), map[key]Count{}
	}
	k := key{topic, reason}
	if _, named := r.counts[k]; !named && len(r.counts) >= mostNamed {
		k.topic = ""
	}
	r.counts[k] = r.counts[k].plus(Count{Topic: k.topic, Reason: reason, N: 1, First: now, Last: now})
	r.last = now
	r.wake()
}

func (r *Recorder) wake() {
	select {
	case r.unsaved <- struct{}{}:
	default:
	}
}

// Run stores the counts until ctx is done, and then the last ones.
func (r *Recorder) Run(ctx context.Context, db *database.DB) error {
	for {
		select {
		case <-ctx.Done():
			if len(r.unsaved) > 0 {
				r.save(context.WithoutCancel(ctx), db)
			}
			return nil
		case <-r.unsaved:
			r.save(ctx, db)
		}
		select {
		case <-ctx.Done():
		case <-time.After(saveEvery):
		}
	}
}

func (r *Recorder) save(ctx context.Context, db *database.DB) {
	r.mu.Lock()
	now := row{r.id, r.last, slices.Collect(maps.Values(r.counts))}
	r.mu.Unlock()
	err := db.Change(ctx, func(tx *gorm.DB) error {
		if err := tx.Where("last_at < ?", now.LastAt.Add(-kept)).Delete(&row{}).Error; err != nil {
			return err
		}
		return database.Upsert(tx).Create(&now).Error
	})
	if err != nil {
		r.log.Debug("store the refused pushes; retrying", "error", err)
		r.wake()
	}
}
