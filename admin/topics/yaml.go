package topics

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/wakecall/wakecall/admin/page"
	"github.com/wakecall/wakecall/internal/account"
	"github.com/wakecall/wakecall/internal/message"
	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/internal/registry/topicfile"
)

func (h *Handler) yamlRoutes(g *echo.Group) {
	g.GET("/topics/-/export", page.Need(account.RoleAdmin, h.exportTopics))
	g.POST("/topics/import", page.Need(account.RoleAdmin, h.importTopics))
}

// exportTopics exports all topics, or the one in the query, and their schedules, as `wakecall topic apply` reads them,
// without secrets.
func (h *Handler) exportTopics(c echo.Context) error {
	snapshot, one := h.Registry.Snapshot(), c.QueryParam("topic")
	names := snapshot.Topics.Names()
	if one != "" {
		names = []string{one}
	}
	var b bytes.Buffer
	var failed error
	add := func(text []byte, err error) {
		failed = errors.Join(failed, err)
		b.WriteString("---\n")
		b.Write(text)
	}
	for _, name := range names {
		t := snapshot.Topics.Get(name)
		if t == nil {
			return fmt.Errorf("%.80q: %w", name, registry.ErrNoTopic)
		}
		public, _ := json.Marshal(t.Public()) // cannot fail: JSON can represent every value
		add(topicfile.Format(public))
	}
	for _, s := range snapshot.Schedules.All() {
		if one == "" || s.Topic == one {
			add(topicfile.FormatSchedule(s))
		}
	}
	if failed != nil {
		return fmt.Errorf("export topics: %w", failed)
	}
	c.Response().Header().Set(echo.HeaderContentDisposition, `attachment; filename="topics.yaml"`)
	return c.Blob(http.StatusOK, "application/yaml", b.Bytes())
}

const maxTopics = 10000 // of a file

// importTopics stores all topics of a file, or none, and then its schedules.
func (h *Handler) importTopics(c echo.Context) error {
	data, err := uploaded(c)
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		h.Flashes.Add(c, "danger", "topics.too_large", page.ByteSize(large.Limit))
		return h.Pages.Redirect(c, "/topics")
	case err != nil:
		h.Flashes.Add(c, "warning", "topics.no_file")
		return h.Pages.Redirect(c, "/topics")
	}
	topics, schedules, err := h.read(data)
	if err == nil && len(topics) > 0 {
		_, err = h.Editor.PutTopics(c.Request().Context(), page.Actor(c), topics)
	}
	if err == nil && len(topics) > 0 {
		h.Flashes.Add(c, "success", "topics.imported", len(topics))
	}
	if err == nil && len(schedules) > 0 {
		err = h.importSchedules(c, schedules)
	}
	if page.ProblemOf(err).Status == http.StatusServiceUnavailable {
		return err
	}
	for _, one := range page.Flatten(err) {
		h.Flashes.AddError(c, one)
	}
	return h.Pages.Redirect(c, "/topics")
}

// importSchedules stores schedules one by one, until one is refused.
func (h *Handler) importSchedules(c echo.Context, schedules []topicfile.Schedule) error {
	for _, s := range schedules {
		_, _, err := h.Schedules.Put(c.Request().Context(), page.Actor(c), *s.Is,
			func(*registry.Schedule) error { return nil })
		if page.ProblemOf(err).Status == http.StatusServiceUnavailable {
			return fmt.Errorf("schedule %s: %w", s.Name, err)
		}
		if err != nil {
			return message.New("topics.schedule_refused", s.Name, err)
		}
	}
	h.Flashes.Add(c, "success", "topics.schedules_imported", len(schedules))
	return nil
}

// uploaded returns the content of the form's file.
func uploaded(c echo.Context) ([]byte, error) {
	file, err := c.FormFile("file")
	if err != nil {
		return nil, err
	}
	f, err := file.Open()
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	return io.ReadAll(f) // Headers limits the size of the request
}

// read returns the topics and schedules of a file. It rejects duplicates, and schedules of topics that are neither in
// the file nor registered.
func (h *Handler) read(data []byte) ([]registry.Topic, []topicfile.Schedule, error) {
	found, err := topicfile.Parse(data)
	if err != nil {
		return nil, nil, err
	}
	if len(found.Topics) > maxTopics || len(found.Schedules) > maxTopics {
		return nil, nil, message.New("topics.too_many", maxTopics)
	}
	topics, seen := make([]registry.Topic, len(found.Topics)), map[string]bool{}
	for i, t := range found.Topics {
		if seen[t.Name] {
			return nil, nil, message.New("topics.twice", t.Name)
		}
		seen[t.Name], topics[i] = true, *t.Is
	}
	schedules := map[string]bool{}
	for _, s := range found.Schedules {
		if schedules[s.Name] {
			return nil, nil, message.New("topics.schedule_twice", s.Name)
		}
		schedules[s.Name] = true
		if !seen[s.Is.Topic] && h.Registry.Snapshot().Topic(s.Is.Topic) == nil {
			return nil, nil, message.New("topics.schedule_topic", s.Name, s.Is.Topic)
		}
	}
	return topics, found.Schedules, nil
}
