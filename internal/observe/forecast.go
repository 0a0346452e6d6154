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
	// Arrivals is how many jobs a second fell due while the oldest ready one waited, and are still being pushed. The
	// oldest are called first, so all that fell due since then still wait. Those that were pushed at once fell due in
	// one half of that time, so that the other one, which counts, has none.
	Arrivals float64
}

// Day is how far a forecast can look ahead.
const Day = 24 * time.Hour

// forecastStep is how many lists of minutes one call of the script counts.
const forecastStep = 1000

// maxForecastPages is the most lists that a forecast counts on one shard: more than 24 hours have.
const maxForecastPages = 20 * forecastStep

// Forecast counts the jobs of a topic that fall due in each of the next 60 minutes and 24 hours, as far as ahead; for
// jobs more than two minutes ahead only the minute is known. With a *PartialError the numbers are from the shards that
// answered.
func (q Figures) Forecast(ctx context.Context, topic string, ahead time.Duration) (f Forecast, err error) {
	err = q.Shards.EachTopic([]string{topic}, 1, func(b *store.Bucket, _ []string) error {
		for skip := 0; skip < maxForecastPages; skip += forecastStep {
			reply, err := b.CallList(ctx, 6+len(f.Minutes)+len(f.Hours), forecastScript, topic, skip,
				forecastStep, int64(ahead/time.Minute))
			if err != nil {
				return err
			}
			if f.add(store.Ints(reply)) < forecastStep {
				return nil
			}
		}
		return nil
	})
	return f, err
}

// add adds the answer of one call of the script, and returns how many lists it counted.
func (f *Forecast) add(n []int64) (pages int64) {
	f.Now = store.Millis(n[0])
	f.addReady(n[2], n[3], n[4], n[5])
	counts := n[6:]
	for i := range f.Minutes {
		f.Minutes[i] += counts[i]
	}
	for i := range f.Hours {
		f.Hours[i] += counts[len(f.Minutes)+i]
	}
	return n[1]
}

func (f *Forecast) addReady(ready, oldest, young, pushed int64) {
	f.Ready += ready
	age := time.Duration(oldest) * time.Millisecond
	f.OldestReady = max(f.OldestReady, age)
	if age > 0 {
		f.Arrivals += float64(min(young, ready-young)) / (age.Seconds() / 2) * float64(pushed) / 100
	}
}
