package server

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/wakecall/wakecall/queue"
	"github.com/wakecall/wakecall/registry"
)

// maxTopicBytes bounds a topic's JSON.
const maxTopicBytes = 256 << 10

// topicView is a topic as the API shows it: without secrets, and with instants and empty lists as everywhere else.
type topicView struct {
	registry.Topic
	CreatedAt instant `json:"created_at"`
	UpdatedAt instant `json:"updated_at"`
}

type instant time.Time

// MarshalJSON writes RFC 3339 with milliseconds.
func (i instant) MarshalJSON() ([]byte, error) { return appendInstant(nil, time.Time(i)), nil }

func viewOf(t *registry.Topic) topicView {
	v := topicView{Topic: t.Public(), CreatedAt: instant(t.CreatedAt), UpdatedAt: instant(t.UpdatedAt)}
	if v.Headers == nil {
		v.Headers = map[string]string{}
	}
	if v.Retry == nil {
		v.Retry = []registry.Duration{}
	}
	if v.Emails == nil {
		v.Emails = []string{}
	}
	return v
}

// answerJSON is for what is not on the hot path.
func answerJSON(c echo.Context, status int, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return answer(c, status, jsonType, body)
}

func (s *Server) listTopics(c echo.Context, token *registry.Token) error {
	if err := allowSomewhere(token, mayManage); err != nil {
		return err
	}
	if _, err := query(c); err != nil {
		return err
	}
	views := []topicView{}
	for name, t := range s.registry.Snapshot().Topics {
		if token.Allows(mayManage, name) {
			views = append(views, viewOf(t))
		}
	}
	slices.SortFunc(views, func(a, b topicView) int { return strings.Compare(a.Name, b.Name) })
	return answerJSON(c, http.StatusOK, map[string]any{"topics": views})
}

func (s *Server) getTopic(c echo.Context, token *registry.Token) error {
	topic, err := s.topicFor(c, token, mayManage)
	if err != nil {
		return err
	}
	if _, err := query(c); err != nil {
		return err
	}
	return answerJSON(c, http.StatusOK, viewOf(topic))
}

func (s *Server) putTopic(c echo.Context, token *registry.Token) error {
	name, err := s.topicName(c, token)
	if err != nil {
		return err
	}
	topic, err := s.readTopic(c, name)
	if err != nil {
		return err
	}
	created, err := s.registry.PutTopic(c.Request().Context(), actor(token), *topic)
	if err != nil {
		return err
	}
	if saved := s.registry.Snapshot().Topics[name]; saved != nil {
		topic = saved
	}
	status := http.StatusOK
	if created {
		status = http.StatusCreated
		c.Response().Header().Set(echo.HeaderLocation, "/v1/topics/"+name)
	}
	return answerJSON(c, status, viewOf(topic))
}

func (s *Server) topicName(c echo.Context, token *registry.Token) (string, error) {
	name, err := pathText(c, "topic")
	if err != nil {
		return "", err
	}
	if err := allow(token, mayManage, name); err != nil {
		return "", err
	}
	if _, err := query(c); err != nil {
		return "", err
	}
	if err := registry.ValidTopicName(name); err != nil {
		return "", badField("topic", "%v", err)
	}
	return name, nil
}

func (s *Server) readTopic(c echo.Context, name string) (*registry.Topic, error) {
	buf := s.buffers.get()
	defer s.buffers.put(buf)
	if err := s.read(c.Request(), buf, maxTopicBytes); err != nil {
		return nil, err
	}
	body := slices.Clone(buf.b) // the registry may keep parts of it
	if err := wellFormed(body); err != nil {
		return nil, err
	}
	// Secrets are write-only, so a client that changes what it got cannot send them back: the registry keeps them unless they are named.
	return registry.DecodeTopic(name, body)
}

// wellFormed refuses malformed JSON with the place of the mistake.
func wellFormed(body []byte) error {
	s := scanner{data: body, depth: maxDepth, text: true}
	if s.space(); s.pos == len(body) {
		return s.errorf("the request has no body; expected a topic like {\"callback_url\":\"https://…\"}")
	}
	err := s.object("the request", func([]byte) error {
		_, err := s.value()
		return err
	})
	if err != nil {
		return err
	}
	return s.end()
}

// deleteTopic refuses while there are jobs, unless they are to go, too. They go before the topic, so that a failure half-way
// leaves a topic through which the rest can be reached, and once more after it, for what was pushed in between.
func (s *Server) deleteTopic(c echo.Context, token *registry.Token) error {
	topic, err := s.topicFor(c, token, mayManage)
	if err != nil {
		return err
	}
	drop, err := wantsDrop(c)
	if err != nil {
		return err
	}
	if !s.registry.Up() {
		return registry.ErrUnavailable // before any job is dropped
	}
	if err := s.emptyTopic(c, token, topic.Name, drop); err != nil {
		return err
	}
	if err := s.registry.DeleteTopic(c.Request().Context(), actor(token), topic.Name); err != nil {
		return err
	}
	if drop {
		if err := s.drop(c, token, topic.Name); err != nil {
			s.log.Warn("jobs that were pushed while their topic was deleted could not be dropped", "topic", topic.Name, "err", err)
		}
	}
	return c.NoContent(http.StatusNoContent)
}

func wantsDrop(c echo.Context) (bool, error) {
	values, err := query(c, "drop")
	if err != nil {
		return false, err
	}
	switch text := values.Get("drop"); text {
	case "", "false":
		return false, nil
	case "true":
		return true, nil
	default:
		return false, badField("drop", "%q is not true or false", clip(text))
	}
}

func (s *Server) emptyTopic(c echo.Context, token *registry.Token, name string, drop bool) error {
	if drop {
		return s.drop(c, token, name)
	}
	all, err := s.jobs.Stats(c.Request().Context(), []string{name})
	if err != nil {
		return err
	}
	if n := total(all[name]); n > 0 {
		return conflict("topic %s has %d jobs; let them end, delete them, or delete it with ?drop=true", name, n)
	}
	return nil
}

func total(st queue.Stats) int64 { return st.Delayed + st.Ready + st.Running + st.Dead }

func (s *Server) drop(c echo.Context, token *registry.Token, name string) error {
	if err := s.writable(); err != nil {
		return err
	}
	n, err := s.jobs.DropTopic(c.Request().Context(), name)
	if n > 0 {
		if err := s.journal(c, token, Record{Op: OpDrop, Topic: name, Count: n}); err != nil {
			return err
		}
	}
	return err
}
