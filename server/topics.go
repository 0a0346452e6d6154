package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/labstack/echo/v4"

	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/internal/store"
)

// maxTopicBytes bounds a topic's JSON.
const maxTopicBytes = 256 << 10

// Limits of a page of topics, and of the topics in one request.
const (
	topicsPage     = 1000
	maxTopics      = 1000
	maxTopicsBytes = 16 << 20
)

// listTopics lists a page. The cursor is the name of the first topic on the next page.
func (s *Server) listTopics(c *call) error {
	limit, err := c.limitOf(topicsPage, topicsPage)
	if err != nil {
		return err
	}
	state, owner, prefix := registry.TopicState(c.query.Get("state")), c.query.Get("owner"), c.query.Get("prefix")
	switch state {
	case "", registry.TopicActive, registry.TopicPaused, registry.TopicOffline:
	default:
		return badField("state", "must be one of active, paused, offline, got %q", clip(string(state)))
	}
	views, next, now := []topicView{}, "", s.registry.Snapshot()
	for name, t := range now.Topics.From(max(prefix, c.query.Get("cursor"))) {
		if !strings.HasPrefix(name, prefix) {
			break
		}
		if state != "" && t.State != state || c.query.Has("owner") && t.Owner != owner ||
			!c.token.Allows(mayRead, name) {
			continue
		}
		if len(views) == limit {
			next = name
			break
		}
		views = append(views, c.viewOfTopic(t, now))
	}
	return s.answer(c, http.StatusOK, map[string]any{"topics": views, "next": next})
}

func (s *Server) getTopic(c *call) error { return s.answerTopic(c, http.StatusOK, c.topic) }

func (s *Server) answerTopic(c *call, status int, t *registry.Topic) error {
	if c.token.Allows(mayManage, t.Name) {
		setETag(c, t.ETag()) // a hash of secrets, too: who may not see them could try them
	}
	return s.answer(c, status, c.viewOfTopic(t, s.registry.Snapshot()))
}

// topicView is the JSON of a topic. While it is paused or offline, it says why and until when.
type topicView struct {
	registry.Topic
	PauseReason string    `json:"pause_reason,omitzero"`
	PausedUntil time.Time `json:"paused_until,omitzero"`
}

// viewOfTopic masks the secrets in the headers and the URL unless the token may change them.
func (c *call) viewOfTopic(t *registry.Topic, now *registry.Snapshot) topicView {
	if !c.token.Allows(mayManage, t.Name) {
		t = t.Masked()
	}
	v := topicView{Topic: t.Public()}
	if t.State != registry.TopicActive {
		note := now.Notes.Get(t.Name)
		v.PauseReason, v.PausedUntil = note.PauseReason, note.PausedUntil
	}
	return v
}

func (s *Server) putTopic(c *call) error {
	name, err := c.newTopicName()
	if err != nil {
		return err
	}
	return s.withBody(c, maxTopicBytes, func(body *buffer) error {
		// Secrets are write-only, so a client that edits an answer cannot send them back. The registry keeps them
		// unless the request has the field.
		topic, err := registry.DecodeTopic(name, slices.Clone(body.b)) // the registry may keep parts of it
		if err != nil {
			return err
		}
		reason := c.query.Get("reason")
		if reason != "" && topic.State == registry.TopicActive {
			return badField("reason", "only of a topic that is paused or offline")
		}
		if err := registry.ValidReason(reason); err != nil {
			return err
		}
		done, err := s.registry.PutTopics(c.ctx(), c.actor(), []registry.Topic{*topic}, c.conditions()...)
		if err != nil {
			return err
		}
		if reason != "" {
			if err := s.registry.SetPauseReason(c.ctx(), c.actor(), name, reason); err != nil {
				return err
			}
		}
		status := http.StatusOK
		if done[0] == registry.TopicCreated {
			status = http.StatusCreated
			c.Response().Header().Set(echo.HeaderLocation, "/v1/topics/"+name)
		}
		return s.answerStored(c, status, topic)
	})
}

// patchTries bounds how often a patch is merged again after somebody else changed the topic.
const patchTries = 5

// patchTopic merges a JSON merge patch (RFC 7396) into the topic. It stores the result only if the topic is still the
// one that it read.
func (s *Server) patchTopic(c *call) error {
	return s.withBody(c, maxTopicBytes, func(body *buffer) error {
		patch, given := slices.Clone(body.b), c.conditions() // the registry may keep parts of the patch
		for try := 1; ; try++ {
			was := s.registry.Snapshot().Topics.Get(c.topic.Name)
			if was == nil { // deleted meanwhile, or implicit
				return notFound(codeTopicNotFound, "no topic %q; create it with PUT", c.topic.Name)
			}
			topic, err := registry.MergeTopic(was, patch)
			if err != nil {
				return err
			}
			conditions := append(slices.Clip(given), registry.IfMatch(was.ETag()))
			_, err = s.registry.PutTopics(c.ctx(), c.actor(), []registry.Topic{*topic}, conditions...)
			if err == nil {
				return s.answerStored(c, http.StatusOK, topic)
			}
			read := try > 1 // by Refresh, so it is as it was stored a moment ago
			if !errors.Is(err, registry.ErrChanged) || try == patchTries || read && !hold(given, was) {
				return err
			}
			s.registry.Refresh(c.ctx())
		}
	})
}

// hold reports whether a topic meets all conditions.
func hold(conditions []registry.Condition, was *registry.Topic) bool {
	return !slices.ContainsFunc(conditions, func(holds registry.Condition) bool { return !holds(was) })
}

// answerStored answers with a topic as it is stored now.
func (s *Server) answerStored(c *call, status int, topic *registry.Topic) error {
	if stored := s.registry.Snapshot().Topics.Get(topic.Name); stored != nil {
		topic = stored
	}
	return s.answerTopic(c, status, topic)
}

func (s *Server) pauseTopic(c *call) error {
	var r struct {
		Reason field[string]   `json:"reason"`
		Until  field[pauseEnd] `json:"until"`
	}
	return s.withOptionalBody(c, &r, func() error {
		p := registry.Pause{Reason: r.Reason.value}
		if r.Until.given {
			var err error
			if p.Until, err = r.Until.value.after(s.opts.Now()); err != nil {
				return err
			}
		}
		if err := s.registry.PauseTopic(c.ctx(), c.actor(), c.topic.Name, p); err != nil {
			return err
		}
		return s.answerStored(c, http.StatusOK, c.topic)
	})
}

func (s *Server) resumeTopic(c *call) error {
	return s.withOptionalBody(c, &struct{}{}, func() error {
		if err := s.registry.ResumeTopic(c.ctx(), c.actor(), c.topic.Name); err != nil {
			return err
		}
		return s.answerStored(c, http.StatusOK, c.topic)
	})
}

// withOptionalBody decodes a small request, which may have no body, for h.
func (s *Server) withOptionalBody(c *call, request any, h func() error) error {
	return s.withBody(c, maxGroupBytes, func(body *buffer) error {
		if len(body.b) > 0 {
			if err := decode(body.b, request); err != nil {
				return err
			}
		}
		return h()
	})
}

// conditions returns the conditions of an edit (RFC 9110): If-Match, and If-None-Match: *.
func (c *call) conditions() (list []registry.Condition) {
	etags, any := c.ifMatch()
	if any {
		list = append(list, registry.IfExists)
	} else if etags != nil {
		list = append(list, registry.IfMatch(etags...))
	}
	if c.Request().Header.Get("If-None-Match") == "*" {
		list = append(list, registry.IfNew)
	}
	return list
}

// ifMatch returns the ETags of If-Match, nil without the header; any reports that it is *.
func (c *call) ifMatch() (etags []string, any bool) {
	given := c.Request().Header.Values("If-Match")
	match := strings.Join(given, ",")
	if len(given) == 0 || match == "*" {
		return nil, match == "*"
	}
	etags = []string{} // empty if the header is empty, and so matches nothing
	for etag := range strings.SplitSeq(match, ",") {
		if etag, ok := strings.CutPrefix(strings.TrimSpace(etag), `"`); ok { // weak ones never match
			etags = append(etags, strings.TrimSuffix(etag, `"`))
		}
	}
	return etags, false
}

// donePut is the outcome for one topic of several.
type donePut struct {
	Name string        `json:"name"`
	Done registry.Done `json:"done"`
}

// putTopics stores either all topics of a request or none.
func (s *Server) putTopics(c *call) error {
	return s.withBody(c, maxTopicsBytes, func(body *buffer) error {
		topics, err := c.decodeTopics(slices.Clone(body.b))
		if err != nil {
			return err
		}
		done, err := s.registry.PutTopics(c.ctx(), c.actor(), topics)
		if err != nil {
			return err
		}
		list := make([]donePut, len(done))
		for i := range done {
			list[i] = donePut{topics[i].Name, done[i]}
		}
		return s.answer(c, http.StatusOK, map[string]any{"topics": list})
	})
}

func (c *call) decodeTopics(data []byte) ([]registry.Topic, error) {
	r := struct {
		Topics list[part] `json:"topics"`
	}{list[part]{most: maxTopics}}
	if err := decode(data, &r); err != nil {
		return nil, err
	}
	if len(r.Topics.items) == 0 {
		return nil, badField("topics", `required, as in {"topics":[{"name":"order.close","callback_url":"https://…"}]}`)
	}
	var topics []registry.Topic
	seen := map[string]bool{}
	for i, item := range r.Topics.items {
		t, err := c.decodeNamed(item.of(data), i+1)
		if err != nil {
			return nil, err
		}
		if seen[t.Name] {
			return nil, badField("topics", "duplicate topic %s", t.Name)
		}
		seen[t.Name] = true
		topics = append(topics, *t)
	}
	return topics, nil
}

// decodeNamed decodes one topic of a list; number is its position.
func (c *call) decodeNamed(v jsontext.Value, number int) (*registry.Topic, error) {
	var named struct {
		Name string `json:"name"`
	}
	if kind := v.Kind(); kind != jsontext.KindBeginObject {
		return nil, badField("topics", "number %d: must be an object, got %s", number, kindName(kind))
	}
	if err := json.Unmarshal(v, &named); err != nil || registry.ValidTopicName(named.Name) != nil {
		return nil, badField("topics", "number %d: %q is not a topic name: %v", number, clip(named.Name),
			cmp.Or(err, registry.ValidTopicName(named.Name)))
	}
	if err := allow(c.token, mayManage, named.Name); err != nil {
		return nil, err
	}
	t, err := registry.DecodeTopic(named.Name, v)
	if err != nil {
		return nil, fmt.Errorf("topic %s: %w", named.Name, err)
	}
	return t, nil
}

// newTopicName returns the topic's name from the path. The topic need not exist.
func (c *call) newTopicName() (string, error) {
	name, err := pathText(c, "topic")
	if err != nil {
		return "", err
	}
	if err := allow(c.token, mayManage, name); err != nil {
		return "", err
	}
	if err := c.readQuery("reason"); err != nil {
		return "", err
	}
	if err := registry.ValidTopicName(name); err != nil {
		return "", badField("topic", "%v", err)
	}
	return name, nil
}

// deleteTopic refuses while the topic has jobs or schedules, unless the query asks to delete them, too.
func (s *Server) deleteTopic(c *call) error {
	drop, errDrop := c.wants("drop")
	force, errForce := c.wants("force")
	if err := cmp.Or(errDrop, errForce); err != nil {
		return err
	}
	name, conditions := c.topic.Name, c.conditions()
	err := s.mayDelete(c, name, force, conditions) // before any job is dropped
	if err != nil {
		return err
	}
	remove := func() error { return s.registry.DeleteTopic(c.editing(), c.actor(), name, force, conditions...) }
	if drop {
		if err := s.writable(); err != nil {
			return err
		}
		err = store.EndTopic(c.editing(), s.jobs, name, remove)
	} else if err = s.hasNoJobs(c.ctx(), name); err == nil {
		err = remove()
	}
	if err != nil {
		return err
	}
	return c.NoContent(http.StatusNoContent)
}

// mayDelete returns why the registry would refuse to delete a topic, as far as this process knows.
func (s *Server) mayDelete(c *call, name string, force bool, conditions []registry.Condition) error {
	if !s.registry.Up() {
		return registry.ErrUnavailable
	}
	s.registry.Refresh(c.ctx())
	now := s.registry.Snapshot()
	was := now.Topics.Get(name)
	if !hold(conditions, was) {
		return fmt.Errorf("topic %s: %w", name, registry.ErrChanged)
	}
	if force {
		return nil
	}
	return now.TopicInUse(name)
}

// wants returns the value of a parameter of the query that is true or false.
func (c *call) wants(name string) (bool, error) {
	switch text := c.query.Get(name); text {
	case "", "false":
		return false, nil
	case "true":
		return true, nil
	default:
		return false, badField(name, "must be true or false, got %q", clip(text))
	}
}

func (s *Server) hasNoJobs(ctx context.Context, name string) error {
	all, err := s.jobs.Stats(ctx, []string{name})
	if err != nil {
		return err
	}
	if n := all[name].Jobs(); n > 0 {
		return conflict(codeTopicHasJobs, "topic %s still has jobs (%d): wait until they end, delete them, or use "+
			"?drop=true", name, n)
	}
	return nil
}
