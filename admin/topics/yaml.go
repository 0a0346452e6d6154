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

// exportTopics exports all topics, or the one in the query, as `wakecall topic apply` reads them, without secrets.
func (h *Handler) exportTopics(c echo.Context) error {
	names := h.Registry.Snapshot().Topics.Names()
	if one := c.QueryParam("topic"); one != "" {
		names = []string{one}
	}
	var b bytes.Buffer
	for _, name := range names {
		t := h.Registry.Snapshot().Topics.Get(name)
		if t == nil {
			return fmt.Errorf("%.80q: %w", name, registry.ErrNoTopic)
		}
		public, err := json.Marshal(t.Public())
		if err != nil {
			return fmt.Errorf("export topic %s: %w", name, err)
		}
		text, err := topicfile.Format(public)
		if err != nil {
			return fmt.Errorf("export topic %s: %w", name, err)
		}
		b.WriteString("---\n")
		b.Write(text)
	}
	c.Response().Header().Set(echo.HeaderContentDisposition, `attachment; filename="topics.yaml"`)
	return c.Blob(http.StatusOK, "application/yaml", b.Bytes())
}

const maxTopics = 10000 // of a file

// importTopics stores all topics of a file, or none.
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
	topics, err := topicsIn(data)
	if err == nil {
		_, err = h.Editor.PutTopics(c.Request().Context(), page.Actor(c), topics)
	}
	if page.ProblemOf(err).Status == http.StatusServiceUnavailable {
		return err
	}
	if err != nil {
		for _, one := range page.Flatten(err) {
			h.Flashes.AddError(c, one)
		}
		return h.Pages.Redirect(c, "/topics")
	}
	h.Flashes.Add(c, "success", "topics.imported", len(topics))
	return h.Pages.Redirect(c, "/topics")
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

// topicsIn returns the topics of a file, and rejects duplicates.
func topicsIn(data []byte) ([]registry.Topic, error) {
	found, err := topicfile.Parse(data)
	if err != nil {
		return nil, err
	}
	if len(found.Topics) > maxTopics {
		return nil, message.New("topics.too_many", maxTopics)
	}
	topics, seen := make([]registry.Topic, len(found.Topics)), map[string]bool{}
	for i, t := range found.Topics {
		if seen[t.Name] {
			return nil, message.New("topics.twice", t.Name)
		}
		seen[t.Name], topics[i] = true, *t.Topic
	}
	return topics, nil
}
