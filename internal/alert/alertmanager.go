package alert

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	resendEvery = time.Minute
	resendAfter = 10 * time.Second // after an error
	// resolveAfter is when an Alertmanager resolves an alert that is not sent again, for example because all processes
	// have stopped.
	resolveAfter = 5 * time.Minute
)

// postable is an alert of the Alertmanager's v2 API. Alerts with the same labels are the same.
type postable struct {
	Labels       map[string]string `json:"labels"`
	Annotations  map[string]string `json:"annotations"`
	StartsAt     time.Time         `json:"startsAt"`
	EndsAt       time.Time         `json:"endsAt"` // zero in memory: open
	GeneratorURL string            `json:"generatorURL,omitempty"`
}

// alertmanager sends every cause of every open alert to an Alertmanager, which groups, silences and repeats them. It
// sends them immediately when they begin or end, and again every minute. Its state is not shared: the next process that
// leads sends the same labels.
type alertmanager struct {
	url, adminURL string
	report        func(error)
	web           *http.Client
	senders       sync.WaitGroup

	mu     sync.Mutex
	alerts map[string]postable // by cause; ended ones are kept until the Alertmanager has them
	due    time.Time           // of the next request
	busy   bool                // a request is in progress
}

// newAlertmanager returns an alertmanager, which does nothing without a URL. web restricts the addresses it may reach.
func newAlertmanager(url, adminURL string, web *http.Client, report func(error)) *alertmanager {
	return &alertmanager{url: url, adminURL: adminURL, report: report, web: web, alerts: map[string]postable{}}
}

// update sets the alerts that are open or have just ended, and starts sending them if it is time.
func (m *alertmanager) update(ctx context.Context, alerts []*Alert, say Say, now time.Time) {
	if m.url == "" {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	current := m.postables(alerts, say)
	maps.DeleteFunc(current, func(id string, p postable) bool { // the Alertmanager has its end
		_, known := m.alerts[id]
		return !known && !p.EndsAt.IsZero()
	})
	for id, was := range m.alerts {
		if _, known := current[id]; known {
			continue
		}
		if was.EndsAt.IsZero() {
			was.EndsAt = now
		}
		current[id] = was
	}
	for id, p := range current {
		if was, known := m.alerts[id]; !known || !was.EndsAt.Equal(p.EndsAt) {
			m.due = now
		}
	}
	m.alerts = current
	if len(current) == 0 || m.busy || now.Before(m.due) {
		return
	}
	m.due, m.busy = now.Add(resendEvery), true
	sent := maps.Clone(current)
	m.senders.Go(func() { m.send(ctx, sent, now) })
}

// wait waits until nothing is being sent.
func (m *alertmanager) wait() { m.senders.Wait() }

// forget stops sending, because another host sends.
func (m *alertmanager) forget() {
	m.mu.Lock()
	defer m.mu.Unlock()
	clear(m.alerts)
}

func (m *alertmanager) postables(alerts []*Alert, say Say) map[string]postable {
	list := map[string]postable{}
	for _, a := range alerts {
		for _, c := range a.Causes {
			id := a.Key + " " + c.Kind + " " + c.Severity
			if was, known := list[id]; c.Severity == Info || known && was.EndsAt.IsZero() { // it began again
				continue
			}
			labels := map[string]string{"alertname": alertName(c.Kind), "severity": c.Severity}
			if a.Topic != "" {
				labels["topic"] = a.Topic
			}
			if a.Shard != "" {
				labels["shard"] = a.Shard
			}
			list[id] = postable{
				Labels: labels, StartsAt: c.BeganAt, EndsAt: c.EndedAt, GeneratorURL: link(m.adminURL, a),
				Annotations: map[string]string{"summary": a.Title(say), "description": c.Say(say, brief)},
			}
		}
	}
	return list
}

// alertName returns the name of a kind in the style of Prometheus: WakecallShardDown.
func alertName(kind string) string {
	var name strings.Builder
	name.WriteString("Wakecall")
	for word := range strings.SplitSeq(kind, "_") {
		name.WriteString(strings.ToUpper(word[:1]) + word[1:])
	}
	return name.String()
}

// send posts alerts and forgets the ended ones.
func (m *alertmanager) send(ctx context.Context, sent map[string]postable, now time.Time) {
	list := slices.Collect(maps.Values(sent))
	for i := range list {
		if list[i].EndsAt.IsZero() {
			list[i].EndsAt = now.Add(resolveAfter)
		}
	}
	err := m.post(ctx, list)
	if ctx.Err() == nil {
		m.report(err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.busy = false; err != nil {
		m.due = now.Add(resendAfter)
		return
	}
	maps.DeleteFunc(m.alerts, func(id string, p postable) bool {
		return !p.EndsAt.IsZero() && p.EndsAt.Equal(sent[id].EndsAt)
	})
}

func (m *alertmanager) post(ctx context.Context, list []postable) error {
	body, err := json.Marshal(list)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	target := strings.TrimRight(m.url, "/") + "/api/v2/alerts"
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, target, bytes.NewReader(body))
	if err != nil {
		return errors.New("invalid URL")
	}
	r.Header.Set("Content-Type", "application/json")
	resp, err := m.web.Do(r)
	if u, ok := errors.AsType[*url.Error](err); ok {
		return u.Err
	}
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	answer, _ := io.ReadAll(io.LimitReader(resp.Body, 500))
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("answered %s: %s", resp.Status, bytes.TrimSpace(answer))
	}
	return nil
}
