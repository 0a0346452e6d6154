package observe

import (
	"context"
	"time"

	"github.com/wakecall/wakecall/internal/store"
)

// Forecast counts the jobs of a topic by when they fall due.
type Forecast struct {
	Now     time.Time // by Redis's clock; the first minute and hour begin here
	Minutes [60]int64
	Hours   [24]int64

	Ready       int64
	OldestReady time.Duration
	// Arrivals is how many jobs a second fell due recently, and are still being pushed. The oldest are called first, so
	// all that fell due since the oldest ready one still wait. Of two halves of the time, the one with fewer jobs
	// counts: when arrivals end, the younger one soon has none, and jobs that were pushed at once are in one of them.
	Arrivals float64
}

// Day is how far a forecast can look ahead.
const Day = 24 * time.Hour

// forecastStep is how many lists of minutes one call of the script counts.
const forecastStep = 1000

// recent is how long ago jobs fell due that tell of arrivals: they end within that time after the last one.
const recent = 20 * time.Second

// maxForecastPages is the most lists that a forecast counts on one shard: more than 24 hours have.
const maxForecastPages = 20 * forecastStep

// Forecast counts the jobs of a topic that fall due in each of the next 60 minutes and 24 hours, as far as ahead; for
// jobs more than two minutes ahead only the minute is known. With a *PartialError the numbers are from the shards that
// answered.
func (q Figures) Forecast(ctx context.Context, topic string, ahead time.Duration) (f Forecast, err error) {
	err = q.Shards.EachTopic([]string{topic}, 1, func(b *store.Bucket, _ []string) error {
		for skip := 0; skip < maxForecastPages; skip += forecastStep {
			args := []any{topic, skip, forecastStep, int64(ahead / time.Minute), recent.Milliseconds()}
			reply, err := b.CallList(ctx, 8, forecastScript, args...)
			if err != nil {
				return err
			}
			f.Now = store.Millis(reply[0])
			f.addReady(store.Ints(reply[2:7]))
			f.addDue(store.Ints(store.Values(reply[7])))
			if store.Integer(reply[1]) < forecastStep {
				return nil
			}
		}
		return nil
	})
	return f, err
}

// addDue adds pairs of a minute and how many jobs fall due in it.
func (f *Forecast) addDue(counts []int64) {
	for ; len(counts) > 1; counts = counts[2:] {
		minute, jobs := int(counts[0]-1), counts[1]
		if minute < len(f.Minutes) {
			f.Minutes[minute] += jobs
		}
		if hour := minute / 60; hour < len(f.Hours) {
			f.Hours[hour] += jobs
		}
	}
}

func (f *Forecast) addReady(n []int64) {
	ready, oldest, steady, examined, fresh := n[0], n[1], n[2], n[3], n[4]
	f.Ready += ready
	age := time.Duration(oldest) * time.Millisecond
	f.OldestReady = max(f.OldestReady, age)
	if age > 0 && examined > 0 {
		f.Arrivals += float64(steady) / min(age/2, recent).Seconds() * float64(fresh) / float64(examined)
	}
}
