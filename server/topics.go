package server

import (
	"net/http"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/labstack/echo/v4"

	"github.com/wakecall/wakecall/queue"
	"github.com/wakecall/wakecall/registry"
)

// maxTopicBytes bounds a topic's JSON.
const maxTopicBytes = 256 << 10

// topicView is a topic without its secrets, and with times as in all answers.
type topicView struct {
	registry.Topic
	CreatedAt instant `json:"created_at"`
	UpdatedAt instant `json:"updated_at"`
}

func viewOfTopic(t *registry.Topic) topicView {
	return topicView{Topic: t.Public(), CreatedAt: instant(t.CreatedAt), UpdatedAt: instant(t.UpdatedAt)}
}

func (s *Server) listTopics(c *call) error {
	views := []topicView{}
	for name, t := range s.registry.Snapshot().Topics.All() {
		if c.token.Allows(mayManage, name) {
			views = append(views, viewOfTopic(t))
		}
	}
	slices.SortFunc(views, func(a, b topicView) int { return strings.Compare(a.Name, b.Name) })
	return s.answer(c, http.StatusOK, map[string]any{"topics": views})
}

func (s *Server) getTopic(c *call) error { return s.answer(c, http.StatusOK, viewOfTopic(c.topic)) }

func (s *Server) putTopic(c *call) error {
	name, err := c.newTopicName()
	if err != nil {
		return err
	}
	return s.withBody(c, maxTopicBytes, func(body *buffer) error {
		topic, err := decodeTopic(name, slices.Clone(body.b)) // the registry may keep parts of it
		if err != nil {
			return err
		}
		created, err := s.registry.PutTopic(c.ctx(), c.actor(), *topic)
		if err != nil {
			return err
		}
		if saved := s.registry.Snapshot().Topics.Get(name); saved != nil {
			topic = saved
		}
		status := http.StatusOK
		if created {
			status = http.StatusCreated
			c.Response().Header().Set(echo.HeaderLocation, "/v1/topics/"+name)
		}
		return s.answer(c, status, viewOfTopic(topic))
	})
}

// newTopicName is the topic of the path, which need not exist.
func (c *call) newTopicName() (string, error) {
	name, err := pathText(c, "topic")
	if err != nil {
		return "", err
	}
	if err := allow(c.token, mayManage, name); err != nil {
		return "", err
	}
	if err := c.readQuery(); err != nil {
		return "", err
	}
	if err := registry.ValidTopicName(name); err != nil {
		return "", badField("topic", "%v", err)
	}
	return name, nil
}

// decodeTopic leaves the fields to the registry. Secrets are write-only, so a client that changes what it got cannot
// send them back: the registry keeps them unless they are named.
func decodeTopic(name string, body []byte) (*registry.Topic, error) {
	if err := wellFormed(body); err != nil {
		return nil, err
	}
	return registry.DecodeTopic(name, body)
}

// wellFormed refuses malformed JSON, with the position of the error.
func wellFormed(body []byte) error {
	if err := checkUTF8(body); err != nil {
		return err
	}
	return decodeObject(body, `a topic like {"callback_url":"https://…"}`, func(d *decoder, _ jsontext.Token) error {
		_, err := d.raw()
		return err
	})
}

// deleteTopic refuses while the topic has jobs, unless the query asks to delete them, too. They are deleted before the
// topic, so that the rest can be reached after a failure, and again after it, because of pushes in between.
func (s *Server) deleteTopic(c *call) error {
	drop, err := wantsDrop(c.query.Get("drop"))
	if err != nil {
		return err
	}
	if !s.registry.Up() {
		return registry.ErrUnavailable // before any job is dropped
	}
	if err := s.emptyTopic(c, drop); err != nil {
		return err
	}
	if err := s.registry.DeleteTopic(c.editing(), c.actor(), c.topic.Name); err != nil {
		return err
	}
	if drop {
		if err := s.drop(c); err != nil {
			s.log.Warn("dropping jobs that were pushed while their topic was deleted failed", "topic", c.topic.Name, "err", err)
		}
	}
	return c.NoContent(http.StatusNoContent)
}

func wantsDrop(text string) (bool, error) {
	switch text {
	case "", "false":
		return false, nil
	case "true":
		return true, nil
	}
	return false, badField("drop", "%q is not true or false", clip(text))
}

func (s *Server) emptyTopic(c *call, drop bool) error {
	if drop {
		return s.drop(c)
	}
	name := c.topic.Name
	all, err := s.jobs.Stats(c.ctx(), []string{name})
	if err != nil {
		return err
	}
	if n := total(all[name]); n > 0 {
		return conflict("topic %s has %d jobs; let them end, delete them, or delete it with ?drop=true", name, n)
	}
	return nil
}

func total(st queue.Stats) int64 { return st.Delayed + st.Ready + st.Running + st.Dead }

func (s *Server) drop(c *call) error {
	if err := s.writable(); err != nil {
		return err
	}
	_, err := s.jobs.DropTopic(c.editing(), c.topic.Name)
	return err
}
