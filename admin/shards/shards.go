package shards

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/wakecall/wakecall/admin/figures"
	"github.com/wakecall/wakecall/admin/page"
	"github.com/wakecall/wakecall/conf/address"
	"github.com/wakecall/wakecall/internal/account"
	"github.com/wakecall/wakecall/internal/alert/health"
	"github.com/wakecall/wakecall/internal/message"
	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/internal/store"
)

func (h *Handler) shardsRoutes(g *echo.Group) {
	g.GET("/shards", h.shardsPage)
	g.GET("/shards/-/new", page.Need(account.RoleAdmin, h.shardNew))
	g.POST("/shards/-/new", page.Need(account.RoleAdmin, h.shardSave))
	g.POST("/shards/test", page.Need(account.RoleAdmin, h.shardTest))
	g.GET("/shards/:name", h.shardPage)
	g.GET("/shards/:name/edit", page.Need(account.RoleAdmin, h.shardEdit))
	g.POST("/shards/:name/edit", page.Need(account.RoleAdmin, h.shardSave))
	g.POST("/shards/:name/state", page.Need(account.RoleOperator, h.shardState))
	g.POST("/shards/:name/delete", page.Need(account.RoleAdmin, h.shardDelete))
	h.Hub.Register("shards", shardsEvery, "partials/shards_rows", func(ctx context.Context, _ string) (any, error) {
		return h.ShardViews(ctx), nil
	})
	h.Hub.Register("shard", shardsEvery, "partials/shard_facts", func(ctx context.Context, name string) (any, error) {
		return h.shardView(ctx, name)
	})
}

const (
	shardsEvery = 3 * time.Second
	healthLimit = 3 * time.Second // so that the page is shown even if shards do not answer
)

// ShardView is a registered shard and its health.
type ShardView struct {
	Name   string
	URL    string // without its password
	State  registry.ShardState
	Asked  bool // its health was checked; offline shards are not
	Health store.ShardHealth
}

// Full returns how full the shard is, 0 to 1; 0 without a limit.
func (v *ShardView) Full() float64 {
	if v.Health.MaxMemory <= 0 {
		return 0
	}
	return float64(v.Health.Memory) / float64(v.Health.MaxMemory)
}

// FullPercent returns the fill level for a bar.
func (v *ShardView) FullPercent() int { return int(min(100, 100*v.Full())) }

// High reports whether the shard will soon reject new jobs.
func (v *ShardView) High() bool { return v.Full() > health.MemoryShare }

// Down reports whether the shard should answer but does not.
func (v *ShardView) Down() bool { return v.Asked && !v.Health.Up }

// Draining reports whether the shard's jobs are being moved to others.
func (v *ShardView) Draining() bool { return v.State == registry.ShardDraining && v.Health.Up }

// Empty reports whether the shard can be removed without leaving a job behind.
func (v *ShardView) Empty() bool { return v.Draining() && v.Health.Jobs == 0 }

// DrainedPercent returns the share of its jobs that have been moved.
func (v *ShardView) DrainedPercent() int {
	if v.Health.Jobs == 0 {
		return 100
	}
	return int(100 * v.Health.Moved / (v.Health.Moved + v.Health.Jobs))
}

// Managed reports whether the master runs the shard's Redis.
func (v *ShardView) Managed() bool { return v.URL == registry.ManagedShard }

func (h *Handler) ShardViews(ctx context.Context) []*ShardView {
	ctx, cancel := context.WithTimeout(ctx, healthLimit)
	defer cancel()
	health := map[string]store.ShardHealth{}
	for _, one := range h.Queue.Health(ctx) {
		health[one.Name] = one
	}
	var list []*ShardView
	for _, s := range h.Registry.ListShards() {
		v := &ShardView{Name: s.Name, URL: registry.MaskURL(s.URL), State: s.State}
		v.Health, v.Asked = health[s.Name]
		list = append(list, v)
	}
	return list
}

func (h *Handler) shardView(ctx context.Context, name string) (*ShardView, error) {
	for _, v := range h.ShardViews(ctx) {
		if v.Name == name {
			return v, nil
		}
	}
	return nil, registry.ErrNoShard
}

// storedShard returns a registered shard, including its password.
func (h *Handler) storedShard(name string) (registry.Shard, error) {
	for _, s := range h.Registry.ListShards() {
		if s.Name == name {
			return s, nil
		}
	}
	return registry.Shard{}, registry.ErrNoShard
}

func (h *Handler) shardsPage(c echo.Context) error {
	return h.Pages.Render(c, http.StatusOK, "shards", h.ShardViews(c.Request().Context()))
}

type shardData struct {
	*ShardView
	Range figures.Range
}

func (h *Handler) shardPage(c echo.Context) error {
	v, err := h.shardView(c.Request().Context(), page.Param(c, "name"))
	if err != nil {
		return err
	}
	return h.Pages.Render(c, http.StatusOK, "shard", shardData{v, figures.RangeOf(c, time.Now())})
}

type shardForm struct {
	New    bool
	Name   string         // the new name as typed; "": unchanged
	Shard  registry.Shard // its URL as typed
	Errors map[string]string
	Seen   string          // state of the shard when the form was opened
	Theirs *registry.Shard // the shard after somebody else's change since then
}

// seenOf returns the shard's values that a form shows.
func seenOf(s registry.Shard) string { return string(s.State) + " " + registry.MaskURL(s.URL) }

func (h *Handler) shardNew(c echo.Context) error {
	return h.Pages.Render(c, http.StatusOK, "shard_form",
		shardForm{New: true, Shard: registry.Shard{State: registry.ShardActive}})
}

func (h *Handler) shardEdit(c echo.Context) error {
	s, err := h.storedShard(page.Param(c, "name"))
	if err != nil {
		return err
	}
	seen := seenOf(s)
	s.URL = registry.MaskURL(s.URL)
	return h.Pages.Render(c, http.StatusOK, "shard_form", shardForm{Shard: s, Seen: seen})
}

// typedShard reads the form. It restores a hidden password in the shard's URL.
func (h *Handler) typedShard(c echo.Context) (s registry.Shard, stored *registry.Shard, err error) {
	s = registry.Shard{
		Name: strings.TrimSpace(c.FormValue("name")), URL: strings.TrimSpace(c.FormValue("url")),
		State: registry.ShardState(c.FormValue("state")),
	}
	if name := cmp.Or(page.Param(c, "name"), c.FormValue("was")); name != "" {
		s.Name = name
	}
	before := ""
	if is, err := h.storedShard(s.Name); err == nil {
		stored, before = &is, is.URL
	}
	if s.State == "" {
		s.State = registry.ShardActive
	}
	if s.URL, err = registry.UnmaskURL(s.URL, before); err != nil {
		return s, stored, page.FieldError("url", "", err)
	}
	if s.URL == "" || s.URL == registry.ManagedShard {
		return s, stored, nil
	}
	node, err := address.Parse(s.URL)
	if err != nil {
		return s, stored, page.FieldError("url", "", err)
	}
	if node.Network == "unix" && s.URL != before {
		return s, stored, page.FieldError("url", "shards.no_socket")
	}
	return s, stored, nil
}

func (h *Handler) shardSave(c echo.Context) error {
	s, stored, err := h.typedShard(c)
	isNew := page.Param(c, "name") == ""
	if isNew && stored != nil {
		err = errors.Join(page.FieldError("name", "shards.taken"), err)
	}
	name, seen := strings.TrimSpace(c.FormValue("name")), c.FormValue("seen")
	if !isNew && stored == nil {
		return registry.ErrNoShard
	}
	if !isNew && seen != "" && seen != seenOf(*stored) {
		theirs := registry.Shard{State: stored.State, URL: registry.MaskURL(stored.URL)}
		s.URL = c.FormValue("url")
		return h.Pages.Render(c, http.StatusConflict, "shard_form",
			shardForm{Name: name, Shard: s, Seen: seenOf(*stored), Theirs: &theirs})
	}
	if h.drainsTheLast(s) {
		err = errors.Join(err, page.FieldError("state", "shards.only_active", s.Name))
	}
	if err = errors.Join(err, s.Validate()); err == nil {
		err = h.Editor.PutShard(c.Request().Context(), page.Actor(c), s)
	}
	if err == nil && name != "" && name != s.Name {
		if err = h.Registry.RenameShard(c.Request().Context(), page.Actor(c), s.Name, name); err == nil {
			s.Name = name
		}
	}
	fields, rest := h.Texts.FieldErrors(c, err)
	if rest != nil {
		return rest
	}
	if len(fields) > 0 {
		s.URL = c.FormValue("url")
		form := shardForm{New: isNew, Name: name, Shard: s, Errors: fields, Seen: seen}
		return h.Pages.Render(c, http.StatusUnprocessableEntity, "shard_form", form)
	}
	h.Flashes.Add(c, "success", "shards.saved", s.Name)
	return h.Pages.Redirect(c, h.Pages.Below("/shards", s.Name))
}

// shardTest tests the connection in the form, for htmx.
func (h *Handler) shardTest(c echo.Context) error {
	s, _, err := h.typedShard(c)
	if err != nil {
		fields, rest := h.Texts.FieldErrors(c, err)
		if rest != nil {
			return rest
		}
		return h.Pages.Fragment(c, "partials/shard_test", shardTest{Err: message.Plain("URL: " + fields["url"])})
	}
	if s.Name == "" {
		s.Name = "new"
	}
	return h.Pages.Fragment(c, "partials/shard_test", h.testShard(c.Request().Context(), s))
}

// drainsTheLast reports whether no other shard could accept the jobs of a shard to be drained.
func (h *Handler) drainsTheLast(s registry.Shard) bool {
	return s.State == registry.ShardDraining && !registry.OtherActive(h.Registry.ListShards(), s.Name)
}

func (h *Handler) shardState(c echo.Context) error {
	s, err := h.storedShard(page.Param(c, "name"))
	if err != nil {
		return err
	}
	s.State = registry.ShardState(c.FormValue("state"))
	if h.drainsTheLast(s) {
		return echo.NewHTTPError(http.StatusConflict, h.Texts.T(c, "shards.only_active", s.Name))
	}
	if err := h.Editor.PutShard(c.Request().Context(), page.Actor(c), s); err != nil {
		return err
	}
	h.Flashes.Add(c, "success", "shards.state_set", s.Name, h.Texts.T(c, "shards.state_"+string(s.State)))
	return h.Pages.Back(c, "/shards")
}

// shardDelete removes a shard that is empty, or offline. The jobs of an offline shard cannot be counted and stay in its
// Redis.
func (h *Handler) shardDelete(c echo.Context) error {
	name := page.Param(c, "name")
	v, err := h.shardView(c.Request().Context(), name)
	if err != nil {
		return err
	}
	if v.State == registry.ShardActive {
		return echo.NewHTTPError(http.StatusConflict, h.Texts.T(c, "shards.still_active", name))
	}
	if v.State == registry.ShardDraining && !v.Empty() {
		return echo.NewHTTPError(http.StatusConflict, h.Texts.T(c, "shards.not_empty", name))
	}
	if err := h.Registry.DeleteShard(c.Request().Context(), page.Actor(c), name); err != nil {
		return err
	}
	h.Flashes.Add(c, "success", "shards.removed", name)
	return h.Pages.Redirect(c, "/shards")
}
