package topics

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/wakecall/wakecall/admin/account"
	"github.com/wakecall/wakecall/admin/page"
	"github.com/wakecall/wakecall/registry"
	"github.com/wakecall/wakecall/topicfile"
)

func (h *Handler) yamlRoutes(g *echo.Group) {
	g.GET("/topics/export", h.Need(account.RoleAdmin, h.exportTopics))
	g.POST("/topics/import", h.Need(account.RoleAdmin, h.importTopics))
}

// exportTopics gives all topics, or the one in the query, as `wakecall topic apply` reads them. Secrets stay here.
func (h *Handler) exportTopics(c echo.Context) error {
	names := h.Snapshot().Topics.Names()
	if one := c.QueryParam("topic"); one != "" {
		names = []string{one}
	}
	var b bytes.Buffer
	for _, name := range names {
		t := h.Snapshot().Topics.Get(name)
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

const (
	maxImport = 4 << 20
	maxTopics = 10000
)

// importTopics checks every topic of a file before it changes the first.
func (h *Handler) importTopics(c echo.Context) error {
	file, err := c.FormFile("file")
	if err != nil {
		h.Flash(c, "warning", "topics.no_file")
		return h.Redirect(c, "/topics")
	}
	f, err := file.Open()
	if err != nil {
		return fmt.Errorf("import topics: %w", err)
	}
	defer func() { _ = f.Close() }()
	data, err := io.ReadAll(io.LimitReader(f, maxImport))
	if err != nil {
		return fmt.Errorf("import topics: %w", err)
	}
	topics, err := topicfile.Parse(data)
	if err == nil && len(topics) > maxTopics {
		err = fmt.Errorf("the file has more than %d topics", maxTopics)
	}
	if err != nil {
		for _, one := range page.Flatten(err) {
			h.FlashText(c, "danger", h.Explain(c, one))
		}
		return h.Redirect(c, "/topics")
	}
	for i, t := range topics {
		if _, err := h.Editor.PutTopic(c.Request().Context(), page.Actor(c), *t.Topic); err != nil {
			h.Flash(c, "warning", "topics.imported", i)
			return fmt.Errorf("import topic %s: %w", t.Name, err)
		}
	}
	h.Flash(c, "success", "topics.imported", len(topics))
	return h.Redirect(c, "/topics")
}
