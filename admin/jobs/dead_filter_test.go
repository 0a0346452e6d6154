package jobs_test

import (
	"context"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/wakecall/wakecall/admin"
	"github.com/wakecall/wakecall/admin/admintest"
	"github.com/wakecall/wakecall/internal/bulk"
	"github.com/wakecall/wakecall/internal/observe"
	"github.com/wakecall/wakecall/internal/queue"
	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/internal/store"
	"github.com/wakecall/wakecall/test/wait"
)

// redriven is a queue that notes which jobs are re-driven, and leaves them dead for the next re-drive.
type redriven struct {
	observe.Figures
	mu   sync.Mutex
	jobs []string
}

func (q *redriven) EndDead(_ context.Context, c store.DeadCall) (int, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, id := range c.IDs {
		q.jobs = append(q.jobs, c.Topic+"/"+id)
	}
	return len(c.IDs), nil
}

func (q *redriven) taken() []string {
	q.mu.Lock()
	defer q.mu.Unlock()
	jobs := slices.Sorted(slices.Values(q.jobs))
	q.jobs = nil
	return jobs
}

// endings of the jobs of each topic. The number 500 is also in an id, and in an error without that status.
var endings = map[string]store.Attempt{
	"order-1":   {Status: 500, Error: "the endpoint answered 500 Internal Server Error"},
	"order-500": {Status: 404, Error: "the endpoint answered 404 Not Found"},
	"mail-1":    {Error: "connection refused after 500 ms"},
}

// buried pushes the jobs of endings to topics, and makes them dead.
func buried(t *testing.T, q *queue.Queue, topics ...string) {
	t.Helper()
	for _, topic := range topics {
		for id := range endings {
			admintest.Must(t, q.Push(t.Context(), store.Push{Topic: topic, ID: id, Body: []byte(`{}`)}).Err)
		}
	}
	left := len(topics) * len(endings)
	wait.For(t, "the jobs to be buried", func() bool {
		got, err := q.Shards.All()[0].Buckets()[0].Reserve(t.Context(), store.Reserve{
			Worker: "w", Token: topics[0] + strconv.Itoa(left), Max: store.ReserveLimit, Pattern: "0102010201",
		})
		admintest.Must(t, err)
		for _, l := range got.Jobs {
			attempt := endings[l.ID]
			_, err := q.Shards.All()[0].Buckets()[0].End(t.Context(), []store.End{
				{Lease: l.Lease, Verb: store.Bury, Reason: "attempts", Attempt: &attempt},
			})
			admintest.Must(t, err)
		}
		left -= len(got.Jobs)
		return left == 0
	})
}

var (
	countShown = regexp.MustCompile(`<p class="h3 mb-1">([\d,]+) jobs?`)
	jobShown   = regexp.MustCompile(`name="job" value="([^"]+)"`)
)

// TestDeadJobsActedOnAreThoseSeen: for every combination of the filter's parts, the number, the table and a re-drive
// are of the same jobs.
func TestDeadJobsActedOnAreThoseSeen(t *testing.T) {
	t.Parallel()
	q := &redriven{Figures: observe.Figures{Queue: admintest.RealQueue(t)}}
	s := admintest.Open(t, func(o *admin.Options) { o.Queue = q }).As("ops")
	var confs []store.TopicConf
	for _, name := range []string{"user.a", "user.b", "users", "crew.own"} {
		s.AddTopic(name)
		confs = append(confs, store.TopicConf{Name: name, TTR: time.Minute, MaxAttempts: 1})
	}
	crew := registry.NewTopic("crew.*")
	crew.Delivery = registry.DeliveryPull
	_, err := s.Registry.PutTopic(t.Context(), "test", crew)
	admintest.Must(t, err)
	confs = append(confs, store.TopicConf{Name: "crew.*", TTR: time.Minute, MaxAttempts: 1})
	admintest.Must(t, q.SetTopics(t.Context(), slices.Values(confs)))
	early, late := []string{"user.a", "crew.own", "crew.x"}, []string{"user.b", "users", "crew.y"}
	buried(t, q.Queue, early...)
	died, err := q.Get(t.Context(), early[0], "mail-1")
	admintest.Must(t, err)
	split := died.DeadAt.Truncate(time.Second).Add(2 * time.Second)
	wait.For(t, "the time between the first and the last deaths", func() bool { return time.Now().After(split) })
	buried(t, q.Queue, late...)
	defer s.Work(t.Context())()

	at := split.Format("2006-01-02T15:04:05")
	task := uint64(0)
	for _, topic := range []string{"", "user.a", "user.*", "us*", "crew.*", "crew.x", "crew.x*"} {
		for _, f := range [][4]string{
			{}, {"500"}, {"", "500"}, {"404", "not found"}, {"", "REFUSED"}, {"", "", "order-"}, {"500", "", "order-"},
			{"500", "", "mail-"}, {"", "500", "order-5"}, {"", "", "", "since"}, {"", "refused", "", "until"},
			{"404", "not", "order", "since"},
		} {
			form := []string{"topic", topic, "status", f[0], "error", f[1], "id", f[2]}
			if f[3] != "" {
				form = append(form, f[3], at)
			}
			var want []string
			for _, name := range slices.Concat(early, late) {
				died := map[bool]string{true: "until", false: "since"}[slices.Contains(early, name)]
				if !registry.MatchesPattern(topic, name) && topic != "" || f[3] != "" && f[3] != died {
					continue
				}
				for id, a := range endings {
					if (f[0] == "" || f[0] == strconv.Itoa(a.Status)) && strings.HasPrefix(id, f[2]) &&
						strings.Contains(strings.ToLower(a.Error), strings.ToLower(f[1])) {
						want = append(want, name+"/"+id)
					}
				}
			}
			slices.Sort(want)
			query := url.Values{}
			for i := 0; i < len(form); i += 2 {
				query.Set(form[i], form[i+1])
			}
			status, body := s.Get("/dead?" + query.Encode())
			if status != http.StatusOK {
				t.Fatalf("%v: %d", form, status)
			}
			count := countShown.FindStringSubmatch(body)
			if count == nil || count[1] != strconv.Itoa(len(want)) {
				t.Errorf("%v counts %q, want %d", form, count, len(want))
			}
			var shown []string
			for _, m := range jobShown.FindAllStringSubmatch(body, -1) {
				shown = append(shown, m[1])
			}
			if slices.Sort(shown); !slices.Equal(shown, want) {
				t.Errorf("%v shows %v, want %v", form, shown, want)
			}
			s.Post("/dead/redrive", append(hiddenFields(body), "rate", "0")...)
			task++
			if v := finished(s, task); v.State != bulk.Done {
				t.Errorf("%v: the task is %+v", form, v)
			}
			if acted := q.taken(); !slices.Equal(acted, want) {
				t.Errorf("%v re-drives %v, want %v", form, acted, want)
			}
		}
	}
}

var hidden = regexp.MustCompile(`<input type="hidden" name="(\w+)" value="([^"]*)">`)

// hiddenFields returns what the form of the action sends.
func hiddenFields(page string) (fields []string) {
	_, page, _ = strings.Cut(page, `id="wk-dead-chosen"`)
	page, _, _ = strings.Cut(page, "</form>")
	for _, m := range hidden.FindAllStringSubmatch(page, -1) {
		fields = append(fields, m[1], m[2])
	}
	return fields
}
