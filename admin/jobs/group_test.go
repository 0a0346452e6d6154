package jobs_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/wakecall/wakecall/admin"
	"github.com/wakecall/wakecall/admin/admintest"
	"github.com/wakecall/wakecall/internal/queue"
	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/internal/store"
)

// TestAGroupIsPushedFoundAndCancelled: its page has its jobs over all topics, and a cancellation says what it did, on
// the page and in the audit trail.
func TestAGroupIsPushedFoundAndCancelled(t *testing.T) {
	t.Parallel()
	s, q := admintest.Shop(t)
	s.AddTopic("mail.remind")
	s.As("ops")
	const group = "order/42 & more"
	path, link := "/groups/order%2F42%20&%20more", `href="/groups/order%2F42%20&amp;%20more"`
	s.Shows(path, "This group has no jobs.")
	for _, topic := range []string{"shop.close", "mail.remind"} {
		_, body := s.Post("/push", "topic", topic, "id", "one", "group", group, "body", "1", "delay", "1h")
		if !strings.Contains(body, link) {
			t.Errorf("the page of the job has no link to its group:\n%s", body)
		}
	}
	admintest.Must(t, q.Push(t.Context(), store.Push{Topic: "shop.close", ID: "other", Delay: time.Hour}).Err)
	page := s.Shows(path, `href="/topics/shop.close/jobs/one"`, `href="/topics/mail.remind/jobs/one"`,
		">Delayed</span> 2<", "2 waiting and dead jobs are deleted")
	if strings.Contains(page, "jobs/other") || strings.Contains(page, "closed until") {
		t.Errorf("the page shows a job of no group, or that it is closed:\n%s", page)
	}
	found := s.Shows("/search?id=order/42+%26+more", link)
	if at := strings.Index(found, link); strings.Contains(found[:at], "/jobs/") {
		t.Error("the search shows a job before the group")
	}

	_, page = s.Post(path, "close", "10m")
	for _, want := range []string{"2 jobs were deleted", "closed for 10m", "closed until", "This group has no jobs."} {
		if !strings.Contains(page, want) {
			t.Errorf("after the cancellation the page does not say %q:\n%s", want, page)
		}
	}
	s.Shows("/search?id=order/42+%26+more", link) // a closed one
	status, body := s.Post("/push", "topic", "shop.close", "group", group, "body", "1")
	if status != http.StatusConflict || !strings.Contains(body, "the group is closed") {
		t.Errorf("a push into the closed group: %d\n%s", status, body)
	}
	if _, err := q.Get(t.Context(), "shop.close", "other"); err != nil {
		t.Errorf("the job of no group: %v", err)
	}
	trail, err := s.Registry.Audit(t.Context(), registry.AuditFilter{Object: "group/" + group})
	if err != nil || len(trail) != 1 || trail[0].Actor != "user/ops" || trail[0].Action != "cancel" ||
		string(trail[0].Before) != `{"jobs":2}` || string(trail[0].After) != `{"jobs":0,"closed_for":"10m0s"}` {
		t.Errorf("the audit trail has %+v, %v", trail, err)
	}
	s.Shows("/audit?object=group/*", "group/order/42 &amp; more", "2 → 0", "10m")
	s.Post("/language", "choice", "zh-Hans")
	s.Shows(path, "此分组没有任务。", "关闭至")
}

// TestOnlyOperatorsCancelGroups, and neither a wrong duration nor a wrong name changes anything.
func TestOnlyOperatorsCancelGroups(t *testing.T) {
	t.Parallel()
	s, q := admintest.Shop(t)
	admintest.Must(t, q.Push(t.Context(), store.Push{Topic: "shop.close", ID: "one", Group: "order-42",
		Delay: time.Hour}).Err)
	if body := s.As("look").Shows("/groups/order-42", "jobs/one"); strings.Contains(body, "Cancel the group") {
		t.Error("a viewer sees the button")
	}
	if status, _ := s.Post("/groups/order-42"); status != http.StatusForbidden {
		t.Errorf("a viewer may cancel: %d", status)
	}
	s.As("ops")
	for _, wrong := range []string{"soon", "0s", "-1m", "721h", "1ms"} {
		if _, body := s.Post("/groups/order-42", "close", wrong); !strings.Contains(body, "must be between 1s and 30d") {
			t.Errorf("close=%s:\n%s", wrong, body)
		}
	}
	for _, name := range []string{"%00", "%20x", "%ff", strings.Repeat("x", 129), "a%0Ab"} {
		if status, _ := s.Get("/groups/" + name); status != http.StatusNotFound {
			t.Errorf("the page of %.10s: %d", name, status)
		}
		if status, _ := s.Post("/groups/" + name); status != http.StatusNotFound {
			t.Errorf("the cancellation of %.10s: %d", name, status)
		}
	}
	s.Shows("/groups/%3Cscript%3E", "&lt;script&gt;", "This group has no jobs.")
	s.Shows("/groups/order-42", "jobs/one")
}

// halfGroups is a queue whose shard b does not answer.
type halfGroups struct {
	*admintest.Queue
	known     queue.Group
	cancelled queue.Cancelled
	err       error
}

func (q *halfGroups) Group(context.Context, string, []string, int) (queue.Group, error) {
	return q.known, &queue.PartialError{Shards: []string{"b"}, Err: &store.UnavailableError{Reason: "down"}}
}

func (q *halfGroups) CancelGroup(context.Context, string, []string, time.Duration) (queue.Cancelled, error) {
	return q.cancelled, q.err
}

// TestAGroupWithoutAShard: the page shows what is known, and does not say that the group has no jobs. The jobs of the
// shard are deleted later, and the page and the audit trail say so.
func TestAGroupWithoutAShard(t *testing.T) {
	t.Parallel()
	q := &halfGroups{Queue: &admintest.Queue{}, cancelled: queue.Cancelled{Deleted: 1, Running: 1, Pending: []string{"b"}}}
	s := admintest.Open(t, func(o *admin.Options) { o.Queue = q }).As("ops")
	body := s.Shows("/groups/order-42", "Shard b does not respond", "unknown whether", ">Dead</span> –<")
	if strings.Contains(body, "has no jobs.") {
		t.Error("the page says that the group has no jobs")
	}
	q.known = queue.Group{
		Counts: queue.GroupCounts{Delayed: 1, Running: 1},
		Jobs:   []store.Job{{Topic: "shop.close", ID: "one", State: store.Delayed}},
	}
	s.Shows("/groups/order-42", "Shard b does not respond", "jobs/one", "1 waiting or dead job is deleted",
		"1 running job finishes", "1 of 2 jobs are listed")
	if _, body := s.Post("/groups/order-42"); !strings.Contains(body, "1 job was deleted") ||
		!strings.Contains(body, "1 job is still running") || !strings.Contains(body, "Shard b does not respond. The jobs") {
		t.Errorf("the cancellation says\n%s", body)
	}
	trail, err := s.Registry.Audit(t.Context(), registry.AuditFilter{Action: "cancel"})
	if err != nil || len(trail) != 1 || string(trail[0].After) != `{"jobs":0,"still_running":1,"pending":["b"]}` {
		t.Errorf("the audit trail has %+v, %v", trail, err)
	}
	q.cancelled, q.err = queue.Cancelled{}, &store.UnavailableError{Reason: "down", Err: errors.New("refused")}
	if status, _ := s.Post("/groups/order-42"); status != http.StatusServiceUnavailable {
		t.Errorf("no shard answers: %d", status)
	}
	if trail, _ = s.Registry.Audit(t.Context(), registry.AuditFilter{Action: "cancel"}); len(trail) != 1 {
		t.Errorf("what did not happen is audited: %+v", trail)
	}
}

// closedGroups is a queue whose dead jobs belong to a closed group.
type closedGroups struct{ *admintest.DeadQueue }

func (*closedGroups) RunNow(context.Context, string, string, store.Match) (*store.Job, error) {
	return nil, fmt.Errorf("run a/job-0: %w", store.ErrClosed)
}

// TestAJobOfAClosedGroupIsNotRedriven, and its page says why.
func TestAJobOfAClosedGroupIsNotRedriven(t *testing.T) {
	t.Parallel()
	q := &closedGroups{admintest.NewDeadQueue("a", 1)}
	s := admintest.Open(t, func(o *admin.Options) { o.Queue = q }).As("ops")
	s.AddTopic("a")
	if status, body := s.Post("/topics/a/jobs/job-0", "do", "run"); status != http.StatusOK ||
		!strings.Contains(body, "the group is closed") {
		t.Errorf("%d\n%s", status, body)
	}
}
