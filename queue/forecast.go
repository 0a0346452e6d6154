package queue

import (
	"context"
	"fmt"
	"time"
)

// Forecast is when the jobs of a topic fall due.
type Forecast struct {
	Now     time.Time // by Redis's clock; the first minute and hour begin here
	Minutes [60]int64
	Hours   [24]int64
}

// forecastStep is how many pages (a minute of a topic each, at most 1,023 jobs) one call of the script looks at.
const forecastStep = 1000

// maxForecastPages bounds what a forecast looks at on one shard: that many pages hold 20 million jobs.
const maxForecastPages = 20 * forecastStep

// Forecast counts the jobs of a topic that fall due in each of the next 60 minutes and 24 hours; those farther ahead than two minutes are
// known to the minute in which they fall due. With a *PartialError the numbers are those of the shards that answered.
func (q *Queue) Forecast(ctx context.Context, topic string) (f Forecast, err error) {
	err = q.onEach([]string{topic}, 1, func(s *Shard, bucket int, _ []string) error {
		for skip := 0; skip < maxForecastPages; skip += forecastStep {
			v, err := s.again(ctx, bucket, s.scripts.forecast, topic, skip, forecastStep)
			if err != nil {
				return err
			}
			n, err := f.add(v)
			if err != nil {
				return fmt.Errorf("forecast %s on shard %s: %w", topic, s.name, err)
			}
			if n < forecastStep {
				return nil
			}
		}
		return nil
	})
	return f, err
}

func (f *Forecast) add(v any) (pages int64, err error) {
	reply, ok := v.([]any)
	if !ok || len(reply) != 4 {
		return 0, errReply
	}
	minutes, okM := reply[2].([]any)
	hours, okH := reply[3].([]any)
	if !okM || !okH || len(minutes) != len(f.Minutes) || len(hours) != len(f.Hours) {
		return 0, errReply
	}
	f.Now = millis(reply[0])
	for i := range f.Minutes {
		n, _ := minutes[i].(int64)
		f.Minutes[i] += n
	}
	for i := range f.Hours {
		n, _ := hours[i].(int64)
		f.Hours[i] += n
	}
	pages, _ = reply[1].(int64)
	return pages, nil
}
