package jobs

import (
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/wakecall/wakecall/admin/page"
	"github.com/wakecall/wakecall/internal/bulk"
	"github.com/wakecall/wakecall/internal/message"
	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/internal/store"
)

// readFilter reads a filter from a form or a query.
func readFilter(form url.Values, zone *time.Location) (bulk.Filter, error) {
	v := func(name string) string { return strings.TrimSpace(form.Get(name)) }
	f := bulk.Filter{
		Topic: v("topic"), State: store.State(v("state")), ID: v("id"), Error: v("error"),
		Reason: v("reason"),
	}
	var err error
	if text := v("status"); text != "" {
		if f.Status, err = strconv.Atoi(text); err != nil {
			return f, message.New("dead.not_a_status", text)
		}
	}
	if f.Since, err = page.Minute(form.Get("since"), zone); err != nil {
		return f, err
	}
	f.Until, err = page.Minute(form.Get("until"), zone)
	return f, err
}

// readTopicFilter does what readFilter does, for the jobs of a topic.
func readTopicFilter(topic string, form url.Values, zone *time.Location) (bulk.Filter, error) {
	f, err := readFilter(form, zone)
	f.Topic = topic
	return f, err
}

// filterFields returns a filter as form fields.
func filterFields(f bulk.Filter) map[string]string {
	return map[string]string{
		"topic": f.Topic, "state": string(f.State), "id": f.ID, "error": f.Error, "reason": f.Reason,
		"status": statusText(f.Status), "since": page.MinuteText(f.Since), "until": page.MinuteText(f.Until),
	}
}

func statusText(status int) string {
	if status == 0 {
		return ""
	}
	return strconv.Itoa(status)
}

// filterQuery returns a filter as a query.
func filterQuery(f bulk.Filter) string {
	q := url.Values{}
	for name, value := range filterFields(f) {
		if value != "" {
			q.Set(name, value)
		}
	}
	return q.Encode()
}

// readDue reads the new due time of several jobs: at is an instant, shift how far to move each job.
func readDue(form url.Values, zone *time.Location) (at time.Time, shift time.Duration, err error) {
	if at, err = page.Minute(form.Get("due_at"), zone); err != nil || !at.IsZero() {
		return at, 0, tooFar(err, at)
	}
	text := strings.TrimSpace(form.Get("shift"))
	var d registry.Duration
	if d.UnmarshalText([]byte(strings.TrimLeft(text, "+-"))) != nil || d == 0 {
		return at, 0, message.New("task.no_shift", text)
	}
	shift = d.Std()
	if strings.HasPrefix(text, "-") {
		shift = -shift
	}
	return at, shift, nil
}

func tooFar(err error, at time.Time) error {
	if err == nil && time.Until(at) > store.MaxDelay {
		return message.New("bulk.too_far")
	}
	return err
}
