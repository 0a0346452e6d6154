package admin

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/wakecall/wakecall/admin/account"
	"github.com/wakecall/wakecall/conf"
	"github.com/wakecall/wakecall/health"
	"github.com/wakecall/wakecall/queue"
	"github.com/wakecall/wakecall/registry"
)

func (a *Admin) shardsRoutes(g *echo.Group) {
	g.GET("/shards", a.shardsPage)
	g.GET("/shards/new", a.need(account.RoleAdmin, a.shardNew))
	g.POST("/shards/new", a.need(account.RoleAdmin, a.shardSave))
	g.POST("/shards/test", a.need(account.RoleAdmin, a.shardTest))
	g.GET("/shards/:name", a.shardPage)
	g.GET("/shards/:name/edit", a.need(account.RoleAdmin, a.shardEdit))
	g.POST("/shards/:name/edit", a.need(account.RoleAdmin, a.shardSave))
	g.POST("/shards/:name/state", a.need(account.RoleOperator, a.shardState))
	g.POST("/shards/:name/delete", a.need(account.RoleAdmin, a.shardDelete))
	a.live("shards", shardsEvery, "partials/shards_rows", func(ctx context.Context, _ string) (any, error) { return a.shardViews(ctx), nil })
	a.live("shard", shardsEvery, "partials/shard_facts", func(ctx context.Context, name string) (any, error) { return a.shardView(ctx, name) })
}

const (
	shardsEvery = 3 * time.Second
	healthLimit = 3 * time.Second // for shards that do not answer, so that the page does
)

// shardView is a registered shard and what it tells of itself.
type shardView struct {
	Name   string
	URL    string // without its password
	State  registry.ShardState
	Asked  bool // offline shards are not
	Health queue.ShardHealth
}

// Full is how full the shard is, 0 to 1; 0 without a limit.
func (v *shardView) Full() float64 {
	if v.Health.MaxMemory <= 0 {
		return 0
	}
	return float64(v.Health.Memory) / float64(v.Health.MaxMemory)
}

// FullPercent is for a bar.
func (v *shardView) FullPercent() int { return int(min(100, 100*v.Full())) }

// High says whether the shard will soon take no more jobs.
func (v *shardView) High() bool { return v.Full() > health.MemoryShare }

// Down says whether the shard ought to answer and does not.
func (v *shardView) Down() bool { return v.Asked && !v.Health.Up }

// Draining says whether the shard gives its jobs away now.
func (v *shardView) Draining() bool { return v.State == registry.ShardDraining && v.Health.Up }

// Empty says whether it can be removed without leaving a job behind.
func (v *shardView) Empty() bool { return v.Draining() && v.Health.Jobs == 0 }

// DrainedPercent is how far it is, by what it has given away.
func (v *shardView) DrainedPercent() int {
	if v.Health.Jobs == 0 {
		return 100
	}
	return int(100 * v.Health.Moved / (v.Health.Moved + v.Health.Jobs))
}

// Managed says whether the master runs the shard's Redis.
func (v *shardView) Managed() bool { return v.URL == registry.ManagedShard }

func (a *Admin) shardViews(ctx context.Context) []*shardView {
	ctx, cancel := context.WithTimeout(ctx, healthLimit)
	defer cancel()
	health := map[string]queue.ShardHealth{}
	for _, h := range a.queue.Health(ctx) {
		health[h.Name] = h
	}
	var list []*shardView
	for _, s := range a.registry.ListShards() {
		v := &shardView{Name: s.Name, URL: maskURL(s.URL), State: s.State}
		v.Health, v.Asked = health[s.Name]
		list = append(list, v)
	}
	return list
}

func (a *Admin) shardView(ctx context.Context, name string) (*shardView, error) {
	for _, v := range a.shardViews(ctx) {
		if v.Name == name {
			return v, nil
		}
	}
	return nil, registry.ErrNoShard
}

// storedShard is a registered shard, its password included.
func (a *Admin) storedShard(name string) (registry.Shard, error) {
	for _, s := range a.registry.ListShards() {
		if s.Name == name {
			return s, nil
		}
	}
	return registry.Shard{}, registry.ErrNoShard
}

func (a *Admin) shardsPage(c echo.Context) error {
	return a.render(c, http.StatusOK, "shards", a.shardViews(c.Request().Context()))
}

type shardData struct {
	*shardView
	Span  string
	Spans []string
}

func (a *Admin) shardPage(c echo.Context) error {
	v, err := a.shardView(c.Request().Context(), param(c, "name"))
	if err != nil {
		return err
	}
	return a.render(c, http.StatusOK, "shard", shardData{v, spanOf(c), spans()})
}

type shardForm struct {
	New    bool
	Shard  registry.Shard // its URL as typed
	Errors map[string]string
}

func (a *Admin) shardNew(c echo.Context) error {
	return a.render(c, http.StatusOK, "shard_form", shardForm{New: true, Shard: registry.Shard{State: registry.ShardActive}})
}

func (a *Admin) shardEdit(c echo.Context) error {
	s, err := a.storedShard(param(c, "name"))
	if err != nil {
		return err
	}
	s.URL = maskURL(s.URL)
	return a.render(c, http.StatusOK, "shard_form", shardForm{Shard: s})
}

// typedShard reads the form; the shard's URL is the one that is meant, with its password.
func (a *Admin) typedShard(c echo.Context) (s registry.Shard, stored *registry.Shard, err error) {
	s = registry.Shard{
		Name: strings.TrimSpace(c.FormValue("name")), URL: strings.TrimSpace(c.FormValue("url")), State: registry.ShardState(c.FormValue("state")),
	}
	if name := param(c, "name"); name != "" {
		s.Name = name
	}
	before := ""
	if is, err := a.storedShard(s.Name); err == nil {
		stored, before = &is, is.URL
	}
	if s.State == "" {
		s.State = registry.ShardActive
	}
	if s.URL, err = unmaskURL(s.URL, before); err != nil {
		return s, stored, &registry.FieldError{Field: "url", Detail: err.Error()}
	}
	if s.URL == "" || s.URL == registry.ManagedShard {
		return s, stored, nil
	}
	if _, err := conf.ParseNode(s.URL); err != nil {
		return s, stored, &registry.FieldError{Field: "url", Detail: err.Error()}
	}
	return s, stored, nil
}

func (a *Admin) shardSave(c echo.Context) error {
	s, stored, err := a.typedShard(c)
	isNew := param(c, "name") == ""
	if err == nil && isNew && stored != nil {
		err = &registry.FieldError{Field: "name", Detail: a.t(c, "shards.taken")}
	}
	if err == nil {
		err = a.registry.PutShard(c.Request().Context(), actor(c), s)
	}
	fields, rest := fieldErrors(err)
	if rest != nil {
		return rest
	}
	if len(fields) > 0 {
		s.URL = c.FormValue("url")
		return a.render(c, http.StatusUnprocessableEntity, "shard_form", shardForm{New: isNew, Shard: s, Errors: fields})
	}
	a.flash(c, "success", "shards.saved", s.Name)
	return a.redirect(c, a.below("/shards", s.Name))
}

// shardTest tries what the form has, for htmx.
func (a *Admin) shardTest(c echo.Context) error {
	s, _, err := a.typedShard(c)
	if err != nil {
		var field *registry.FieldError
		if errors.As(err, &field) {
			return a.fragment(c, "partials/shard_test", shardTest{Err: "URL: " + field.Detail})
		}
		return err
	}
	if s.Name == "" {
		s.Name = "new"
	}
	return a.fragment(c, "partials/shard_test", a.testShard(c.Request().Context(), s))
}

func (a *Admin) shardState(c echo.Context) error {
	s, err := a.storedShard(param(c, "name"))
	if err != nil {
		return err
	}
	s.State = registry.ShardState(c.FormValue("state"))
	if s.State == registry.ShardDraining && !registry.OtherActive(a.registry.ListShards(), s.Name) {
		return echo.NewHTTPError(http.StatusConflict, a.t(c, "shards.only_active", s.Name))
	}
	if err := a.registry.PutShard(c.Request().Context(), actor(c), s); err != nil {
		return err
	}
	a.flash(c, "success", "shards.state_set", s.Name, a.t(c, "shards.state_"+string(s.State)))
	return a.back(c, "/shards")
}

// shardDelete forgets a shard that is empty, or that is offline, so that nobody can say: its jobs stay where they are.
func (a *Admin) shardDelete(c echo.Context) error {
	name := param(c, "name")
	v, err := a.shardView(c.Request().Context(), name)
	if err != nil {
		return err
	}
	if v.State == registry.ShardActive {
		return echo.NewHTTPError(http.StatusConflict, a.t(c, "shards.still_active", name))
	}
	if v.State == registry.ShardDraining && !v.Empty() {
		return echo.NewHTTPError(http.StatusConflict, a.t(c, "shards.not_empty", name))
	}
	if err := a.registry.DeleteShard(c.Request().Context(), actor(c), name); err != nil {
		return err
	}
	a.flash(c, "success", "shards.removed", name)
	return a.redirect(c, "/shards")
}
