package lmstfy

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/wakecall/wakecall/gateway"
	"github.com/wakecall/wakecall/internal/store"
)

// Limits of publishing.
const (
	maxBody = 1 << 20
	maxBulk = 64
)

// terms are the parameters of a publish, except the body.
type terms struct {
	delay, ttl time.Duration // ttl 0: forever
	tries      int
	attributes map[string]string
}

func (r *request) terms() (t terms, err error) {
	if t.delay, err = r.seconds("delay", r.g.Defaults.Delay); err != nil {
		return t, err
	}
	if t.ttl, err = r.seconds("ttl", r.g.Defaults.TTL); err != nil {
		return t, err
	}
	if t.ttl > 0 && t.ttl < t.delay {
		return t, bad("ttl is shorter than delay")
	}
	tries, err := r.number("tries", uint64(r.g.Defaults.Tries), 16)
	if err != nil {
		return t, err
	}
	if tries == 0 {
		return t, bad("tries shouldn't be zero")
	}
	t.tries = int(tries)
	t.attributes, err = r.attributes()
	return t, err
}

// Limits of attributes.
const (
	maxAttributes     = 16
	maxAttributeName  = 32
	maxAttributeValue = 128
	attributePrefix   = "Job-Attr-"
)

// attributes reads the headers Job-Attr-NAME of a client that supports them. It truncates names and values to their
// limits.
func (r *request) attributes() (map[string]string, error) {
	if !strings.EqualFold(r.Header.Get("Enable-Job-Version"), "yes") {
		return nil, nil
	}
	var list map[string]string
	for header, values := range r.Header {
		name, ok := strings.CutPrefix(header, attributePrefix)
		if !ok || name == "" || values[0] == "" {
			continue
		}
		if list == nil {
			list = map[string]string{}
		}
		list[strings.ToLower(cut(name, maxAttributeName))] = cut(values[0], maxAttributeValue)
	}
	if len(list) > maxAttributes {
		return nil, bad("too many attributes, cannot exceed 16")
	}
	return list, nil
}

func cut(s string, most int) string { return s[:min(len(s), most)] }

// job returns a push with a new id.
func (t *terms) job(topic string, body []byte, now time.Time) store.Push {
	id := newID(now, t.delay)
	if t.attributes != nil {
		id = withAttributes + id
	}
	return store.Push{
		Topic: topic, ID: id, Fresh: true, Body: body, ContentType: store.TypeOf(body), Priority: store.Normal,
		Delay: min(t.delay, store.MaxDelay), TTL: t.ttl, MaxAttempts: t.tries, Headers: t.attributes,
	}
}

func (g *Gateway) publish(r *request) error {
	t, err := r.terms()
	if err != nil {
		return err
	}
	id, err := g.store(r, t)
	if err != nil {
		return err
	}
	return g.published(r, id)
}

// refuseOffline returns an error if the queue or its namespace is offline.
func (g *Gateway) refuseOffline(r *request) error {
	if gateway.IsOffline(r.topic(), g.Tokens.registry.Snapshot()) {
		return refuse(http.StatusConflict, "queue is offline")
	}
	return nil
}

// store pushes the body of the request under a new id.
func (g *Gateway) store(r *request, t terms) (id string, err error) {
	if err := g.refuseOffline(r); err != nil {
		return "", err
	}
	body, err := r.body(maxBody, "body too large")
	if err != nil {
		return "", err
	}
	job := t.job(r.topic(), body, time.Now())
	return job.ID, g.Queue.Push(r.Context(), job).Err
}

func (g *Gateway) published(r *request, id string) error {
	g.metrics.published(r, 1)
	return r.answer(http.StatusCreated, object{"job_id": id, "msg": "published"})
}

// republish publishes a job again under a new id. As in lmstfy, no limit applies, and the old job is deleted even if
// the parameters are invalid. If they are valid, it is deleted after the new one is stored, so that a failure loses no
// job.
func (g *Gateway) republish(r *request) error {
	t, err := r.terms()
	if err != nil {
		if e := g.endNamed(r); e != nil {
			return e
		}
		return err
	}
	id, err := g.store(r, t)
	if err != nil {
		return err
	}
	if err := g.endNamed(r); err != nil {
		return err
	}
	return g.published(r, id)
}

func (g *Gateway) publishBulk(r *request) error {
	t, err := r.terms()
	if err == nil {
		err = g.refuseOffline(r)
	}
	if err != nil {
		return err
	}
	text, err := r.body(maxBulk*(maxBody+1)+2, "body too large")
	if err != nil {
		return err
	}
	bodies, err := bulkOf(text)
	if err != nil {
		return err
	}
	now := time.Now()
	pushes, ids := make([]store.Push, len(bodies)), make([]string, len(bodies))
	for i, body := range bodies {
		pushes[i] = t.job(r.topic(), body, now)
		ids[i] = pushes[i].ID
	}
	for _, result := range g.Queue.PushBatch(r.Context(), pushes) {
		if result.Err != nil {
			return result.Err
		}
	}
	g.metrics.published(r, len(ids))
	return r.answer(http.StatusCreated, object{"job_ids": ids, "msg": "published"})
}

// bulkOf parses a bulk. The JSON text of each element is the body of a job.
func bulkOf(text []byte) ([]json.RawMessage, error) {
	var bodies []json.RawMessage
	if json.Unmarshal(text, &bodies) != nil {
		return nil, bad("request body should be an array of objects")
	}
	switch {
	case len(bodies) == 0:
		return nil, bad("no jobs")
	case len(bodies) > maxBulk:
		return nil, bad("too many jobs")
	}
	for _, body := range bodies {
		if len(body) > maxBody {
			return nil, refuse(http.StatusRequestEntityTooLarge, "job too large")
		}
	}
	return bodies, nil
}

// body reads the request's body, whatever its Content-Type.
func (r *request) body(most int64, tooLarge string) ([]byte, error) {
	if r.ContentLength > most {
		return nil, refuse(http.StatusRequestEntityTooLarge, tooLarge)
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, most+1))
	switch {
	case errors.Is(err, gateway.ErrBodies):
		return nil, refuse(http.StatusServiceUnavailable, err.Error())
	case err != nil:
		return nil, bad("failed to read body")
	}
	if int64(len(body)) > most {
		return nil, refuse(http.StatusRequestEntityTooLarge, tooLarge)
	}
	return body, nil
}
