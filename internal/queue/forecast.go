package queue

import (
	"context"
	"time"
)

// Forecast counts the jobs of a topic by when they fall due.
type Forecast struct {
	Now     time.Time // by Redis's clock; the first minute and hour begin here
	Minutes [60]int64
	Hours   [24]int64
}

// forecastStep is how many lists of minutes one call of the script counts.
const forecastStep = 1000

// maxForecastPages is the most lists that a forecast counts on one shard: more than 24 hours have.
const maxForecastPages = 20 * forecastStep

// Forecast counts the jobs of a topic that fall due in each of the next 60 minutes and 24 hours; for jobs more than two
// minutes ahead only the minute is known. With a *PartialError the numbers are from the shards that answered.
func (q *Queue) Forecast(ctx context.Context, topic string) (f Forecast, err error) {
	err = q.eachTopic([]string{topic}, 1, func(s *Shard, bucket int, _ []string) error {
		for skip := 0; skip < maxForecastPages; skip += forecastStep {
			reply, err := s.list(ctx, bucket, 2+len(f.Minutes)+len(f.Hours), "forecast", topic, skip, forecastStep)
			if err != nil {
				return err
			}
			if f.add(ints(reply)) < forecastStep {
				return nil
			}
		}
		return nil
	})
	return f, err
}

// add adds the answer of one call of the script, and returns how many lists it counted.
func (f *Forecast) add(n []int64) (pages int64) {
	f.Now = millis(n[0])
	counts := n[2:]
	for i := range f.Minutes {
		f.Minutes[i] += counts[i]
	}
	for i := range f.Hours {
		f.Hours[i] += counts[len(f.Minutes)+i]
	}
	return n[1]
}
