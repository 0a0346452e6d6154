package chaos

import (
	"context"
	"fmt"
	"net/http"

	"github.com/wakecall/wakecall/test/harness"
)

// farTopic has the jobs that stay delayed during the whole run: they are due long after it.
const farTopic = "far"

// pushFar pushes them, a thousand at once.
func (s *site) pushFar(ctx context.Context) error {
	if far == 0 {
		return nil
	}
	s.hosts[0].MustPutTopic(s.t, farTopic, M{"callback_url": s.endpoint.url(farTopic)})
	for n := 0; n < far; {
		var jobs []M
		for ; n < far && len(jobs) < 1000; n++ {
			jobs = append(jobs, M{"topic": farTopic, "id": fmt.Sprint("far-", n), "body": n, "delay": "24h"})
		}
		var body struct {
			Results []struct{ Error *harness.Problem }
		}
		answer := s.hosts[n/1000%len(s.hosts)].Quick().Do(ctx, http.MethodPost, "/v1/jobs", M{"jobs": jobs})
		if err := answer.JSON(&body); err != nil || answer.Status != http.StatusOK {
			return fmt.Errorf("pushing jobs that wait: %s, %v", answer, err)
		}
		for _, r := range body.Results {
			if r.Error != nil {
				return fmt.Errorf("pushing jobs that wait: %+v", *r.Error)
			}
		}
	}
	return nil
}

// judgeFar checks that all of them are still delayed.
func (s *site) judgeFar(ctx context.Context) []error {
	if far == 0 {
		return nil
	}
	stats, err := s.hosts[0].Stats(ctx, farTopic)
	if err == nil {
		err = harness.Equal("jobs that wait", stats.Delayed, far)
	}
	if err != nil {
		return []error{err}
	}
	return nil
}
