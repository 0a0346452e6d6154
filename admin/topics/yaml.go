package topics

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"

	"github.com/goccy/go-yaml"
	"github.com/labstack/echo/v4"
	"github.com/wakecall/wakecall/admin/account"
	"github.com/wakecall/wakecall/admin/page"
	"github.com/wakecall/wakecall/registry"
)

func (h *Handler) yamlRoutes(g *echo.Group) {
	g.GET("/topics/export", h.Need(account.RoleAdmin, h.exportTopics))
	g.POST("/topics/import", h.Need(account.RoleAdmin, h.importTopics))
}

// exportTopics gives all topics, or the one in the query, as `wakecall topic apply` reads them. Secrets stay here.
func (h *Handler) exportTopics(c echo.Context) error {
	names := page.TopicNames(h.Snapshot())
	if one := c.QueryParam("topic"); one != "" {
		names = []string{one}
	}
	var b bytes.Buffer
	for _, name := range names {
		t := h.Snapshot().Topics[name]
		if t == nil {
			return fmt.Errorf("%.80q: %w", name, registry.ErrNoTopic)
		}
		text, err := yamlOf(t)
		if err != nil {
			return fmt.Errorf("export topic %s: %w", name, err)
		}
		b.WriteString("---\n")
		b.Write(text)
	}
	c.Response().Header().Set(echo.HeaderContentDisposition, `attachment; filename="topics.yaml"`)
	return c.Blob(http.StatusOK, "application/yaml", b.Bytes())
}

// yamlOf is a topic as its JSON says it, without what nobody sets.
func yamlOf(t *registry.Topic) ([]byte, error) {
	raw, err := json.Marshal(t.Public())
	if err != nil {
		return nil, err
	}
	var fields map[string]any
	if err := json.Unmarshal(raw, &fields); err != nil {
		return nil, err
	}
	delete(fields, "created_at")
	delete(fields, "updated_at")
	ordered := yaml.MapSlice{{Key: "name", Value: fields["name"]}}
	for _, key := range page.SortedKeys(fields) {
		if key != "name" {
			ordered = append(ordered, yaml.MapItem{Key: key, Value: fields[key]})
		}
	}
	return yaml.Marshal(ordered)
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
	topics, err := readTopics(io.LimitReader(f, maxImport))
	if err != nil {
		h.FlashText(c, "danger", err.Error())
		return h.Redirect(c, "/topics")
	}
	for i, t := range topics {
		if _, err := h.registry.PutTopic(c.Request().Context(), page.Actor(c), *t); err != nil {
			h.Flash(c, "warning", "topics.imported", i)
			return fmt.Errorf("import topic %s: %w", t.Name, err)
		}
	}
	h.Flash(c, "success", "topics.imported", len(topics))
	return h.Redirect(c, "/topics")
}

func readTopics(r io.Reader) ([]*registry.Topic, error) {
	var topics []*registry.Topic
	for d, n := yaml.NewDecoder(r), 1; ; n++ {
		var document any
		err := d.Decode(&document)
		if errors.Is(err, io.EOF) {
			return topics, nil
		}
		if err != nil {
			return nil, fmt.Errorf("document %d of the file: %w", n, err)
		}
		list, many := document.([]any)
		if !many && document != nil {
			list = []any{document}
		}
		for _, one := range list {
			t, err := readTopic(one)
			if err != nil {
				return nil, fmt.Errorf("document %d of the file: %w", n, err)
			}
			if topics = append(topics, t); len(topics) > maxTopics {
				return nil, fmt.Errorf("the file has more than %d topics", maxTopics)
			}
		}
	}
}

func readTopic(v any) (*registry.Topic, error) {
	fields, ok := v.(map[string]any)
	name, named := fields["name"].(string)
	if !ok || !named {
		return nil, errors.New("a topic has no name")
	}
	fields = mapsWithout(fields, "name")
	raw, err := json.Marshal(fields)
	if err != nil {
		return nil, fmt.Errorf("topic %.80q: %w", name, err)
	}
	t, err := registry.DecodeTopic(name, raw)
	if err != nil {
		return nil, fmt.Errorf("topic %.80q: %w", name, err)
	}
	return t, nil
}

func mapsWithout(m map[string]any, keys ...string) map[string]any {
	rest := make(map[string]any, len(m))
	for k, v := range m {
		if !slices.Contains(keys, k) {
			rest[k] = v
		}
	}
	return rest
}
