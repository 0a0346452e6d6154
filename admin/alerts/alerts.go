package alerts

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/wakecall/wakecall/admin/list"
	"github.com/wakecall/wakecall/admin/page"
	"github.com/wakecall/wakecall/internal/account"
	"github.com/wakecall/wakecall/internal/alert"
	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/internal/registry/seal"
	"github.com/wakecall/wakecall/web"
)

// Routes registers the pages.
func (h *Handler) Routes(g *echo.Group) {
	admin := func(do echo.HandlerFunc) echo.HandlerFunc { return page.Need(account.RoleAdmin, do) }
	g.GET("/alerts", h.alertsPage)
	g.GET("/alerts/deliveries", h.deliveriesPage)
	g.GET("/alerts/settings", admin(h.alertSettings))
	h.Pages.FormsOf(g, "/alerts/settings", "/alerts/mail", "/alerts/recipients", "/alerts/rules", "/alerts/webhooks",
		"/alerts/webhooks/delete")
	g.POST("/alerts/handle", page.Need(account.RoleOperator, h.handle))
	g.POST("/alerts/mail", admin(h.saveMail))
	g.POST("/alerts/mail/test", admin(h.testMail))
	g.POST("/alerts/recipients", admin(h.saveRecipients))
	g.POST("/alerts/rules", admin(h.saveRules))
	g.POST("/alerts/webhooks", admin(h.addWebhook))
	g.POST("/alerts/webhooks/delete", admin(h.deleteWebhook))
	g.POST("/alerts/webhooks/test", admin(h.testWebhook))
}

const (
	alertsEach = 50
	openShown  = 200
	openListed = 1000
)

// alertKinds are the kinds that the list can be filtered by. Their texts are alerts.kind_NAME.
var alertKinds = []string{
	"shard_down", "shard_partial", "shard_slow", "shard_memory", "shard_eviction", "shard_write_error",
	"shard_link_down", "shard_clock", "shard_stepped", "shard_restarted", "shard_forbidden",
	"shard_settings", "shard_large",
	"refused", "registry", "topic_unknown", "journal", "process",
	"no_consumer", "no_worker", "topic_failing", "breaker", "dead", "dead_jobs",
	"late", "ledger", "paused", "many_topics", "schedule_late", "schedule_dead", "schedule_left_out",
	"relay_set_aside", "relay_late", "relay_silent",
}

type alertsData struct {
	Open        []*alert.Group
	Ended       []alert.Alert
	Color       string // the color of the worst open alert
	Shown, All  int    // open ones
	Kind, Topic string
	Group       string // the key of the only group that is shown; empty: all are
	Kinds       []string
	Pager       list.Pager // of Ended
	MailOff     bool
	At          time.Time // as of which the alerts are known, while the database is unavailable; zero: now
}

func (h *Handler) alertsPage(c echo.Context) error {
	d := alertsData{Kind: c.QueryParam("kind"), Topic: c.QueryParam("topic"), Kinds: alertKinds}
	settings, err := alert.Read(h.Registry.Snapshot())
	d.MailOff = err == nil && (settings.Mail.Host == "" || len(settings.Recipients) == 0) && len(settings.Webhooks) == 0
	store, ctx := h.Alerts, c.Request().Context()
	open, at, err := store.List(ctx, alert.Filter{Kind: d.Kind, Topic: d.Topic, Limit: openListed})
	if err != nil {
		return err
	}
	d.At = at
	d.showOpen(open, c.QueryParam("group"), h.Registry.Snapshot().OwnerOf, h.Now())
	if d.Ended, _, err = store.List(ctx,
		alert.Filter{Ended: true, Kind: d.Kind, Topic: d.Topic, Limit: alertsEach + 1,
			Before: list.BeforeID(c.QueryParams())}); err != nil {
		return err
	}
	d.Ended, d.Pager = list.ByID(c.QueryParams(), d.Ended, alertsEach, func(a *alert.Alert) uint64 { return a.ID })
	return h.Pages.Render(c, http.StatusOK, "alerts", d)
}

// showOpen shows the open alerts, or only one group of them, unless that is over.
func (d *alertsData) showOpen(list []alert.Alert, group string, owner func(string) string, now time.Time) {
	for _, g := range alert.GroupByCause(list, owner, now) {
		if g.Key == group {
			list, d.Group = g.Alerts, group
		}
	}
	d.All, d.Shown = len(list), min(len(list), openShown)
	d.Open = alert.GroupByCause(list[:d.Shown], owner, now) // the worst come first
	if d.Shown > 0 {
		d.Color = d.Open[0].Alerts[0].Color(now)
	}
}

// handle acknowledges alerts, mutes them for a while, or undoes that.
func (h *Handler) handle(c echo.Context) error {
	why, until := strings.TrimSpace(c.FormValue("why")), time.Time{}
	if d, err := time.ParseDuration(c.FormValue("for")); err == nil && d > 0 && c.FormValue("mute") != "" {
		until = h.Now().Add(d)
	}
	keys := c.Request().Form["key"]
	switch undo := c.FormValue("undo") != ""; {
	case len(keys) == 0:
		h.Flashes.Add(c, "danger", "alerts.handled_none")
		return h.Pages.Back(c, "/alerts")
	case undo:
		why = ""
	case why == "":
		h.Flashes.Add(c, "danger", "alerts.handled_why")
		return h.Pages.Back(c, "/alerts")
	}
	over := false
	for _, key := range keys[:min(len(keys), openShown)] {
		err := alert.Handle(c.Request().Context(), h.Registry, page.Actor(c), key, why, until)
		if err != nil && !errors.Is(err, alert.ErrNoAlert) {
			return err
		}
		over = over || err != nil
	}
	if over {
		h.Flashes.Add(c, "warning", "alerts.handled_over")
	} else {
		h.Flashes.Add(c, "success", "alerts.handled_saved")
	}
	return h.Pages.Back(c, "/alerts")
}

type alertDeliveriesData struct {
	List []alert.Delivery
	Away bool // the database is unavailable
}

func (h *Handler) deliveriesPage(c echo.Context) error {
	list, err := h.Alerts.ListDeliveries(c.Request().Context(), 200)
	away := errors.Is(err, registry.ErrUnavailable)
	if err != nil && !away {
		return err
	}
	return h.Pages.Render(c, http.StatusOK, "alert_deliveries", alertDeliveriesData{list, away})
}

type alertSettingsData struct {
	alert.Settings
	HasPass  bool
	TLS      []string
	To       string // the recipients, one per line
	Spoken   []web.Language
	Switches []ruleSwitch
	Limits   []ruleLimit
	Late     string // the objectives of topics, one per line
	Hooks    []webhookView
	Presets  []string
	Hook     alert.Webhook // the webhook being added
	Errors   map[string]string
	Seen     map[string]string // by card: its settings when its form was opened
	Changed  string            // the card that somebody else has changed since then
	Broken   string            // why settings cannot be read, such as another secret key
}

// TypedURL returns the URL of the webhook being added, which may be shown to whoever typed it.
func (d alertSettingsData) TypedURL() string { return string(d.Hook.URL) }

// TypedOnly returns the route of the webhook being added.
func (d alertSettingsData) TypedOnly() string { return routeText(d.Hook.Only) }

type webhookView struct{ Name, Preset, Host, Only string }

// showSettings returns the page's data for settings, stored or typed.
func showSettings(s alert.Settings, errs map[string]string) alertSettingsData {
	d := alertSettingsData{
		Settings: s, HasPass: s.Mail.Password != "", TLS: mailTLS, To: recipientsText(s.Recipients),
		Spoken: web.Languages, Presets: webhookPresets, Errors: errs,
		Late: objectivesText(s.Rules.Objectives), Seen: map[string]string{},
	}
	for _, card := range cards {
		d.Seen[card] = seenOf(s, card)
	}
	d.Mail.Password = ""
	for _, f := range ruleFields(&s) {
		if on, is := f.setting.(*bool); is {
			d.Switches = append(d.Switches, ruleSwitch{f.name, *on})
			continue
		}
		d.Limits = append(d.Limits, ruleLimit{f.name, f.text(), errs[f.name]})
	}
	for _, w := range s.Webhooks {
		d.Hooks = append(d.Hooks, webhookView{w.Name, w.Preset, webhookHost(w), routeText(w.Only)})
	}
	return d
}

func (h *Handler) alertSettings(c echo.Context) error {
	s, err := alert.Read(h.Registry.Snapshot())
	d := showSettings(s, nil)
	if err != nil {
		d.Broken = err.Error()
	}
	return h.Pages.Render(c, http.StatusOK, "alert_settings", d)
}

// changeSettings applies change to the settings and stores them, or shows the form again with its errors or with the
// notice that somebody else has changed the card since its form was opened.
func (h *Handler) changeSettings(c echo.Context, change func(*alert.Settings) error) error {
	ctx, card, seen := c.Request().Context(), h.sentCard(c), c.FormValue("seen")
	s, stored := alert.Defaults(), ""
	edit := func() error {
		if stored = seenOf(s, card); seen != "" && seen != stored {
			return registry.ErrChanged
		}
		err := change(&s)
		return errors.Join(err, s.Validate())
	}
	err := h.Registry.EditSetting(ctx, page.Actor(c), alert.SettingName, &s, edit)
	if errors.Is(err, seal.ErrKey) { // secrets under another key can only be typed again
		seen = ""
		if err = edit(); err == nil {
			err = h.Registry.PutSetting(ctx, page.Actor(c), alert.SettingName, s)
		}
	}
	if errors.Is(err, registry.ErrChanged) {
		fields, _ := h.Texts.FieldErrors(c, change(&s))
		d := showSettings(s, fields)
		d.Changed, d.Seen[card] = card, stored
		return h.Pages.Render(c, http.StatusConflict, "alert_settings", d)
	}
	fields, rest := h.Texts.FieldErrors(c, err)
	sealed := errors.Is(rest, seal.ErrKey)
	if rest != nil && !sealed {
		return rest
	}
	if err == nil {
		h.Flashes.Add(c, "success", "alerts.saved")
		if page.IsFragment(c) { // htmx replaces the card that was sent and leaves the others
			return h.alertSettings(c)
		}
		return h.Pages.Redirect(c, "/alerts/settings")
	}
	if page.IsFragment(c) {
		h.flashOthers(c, fields)
	}
	d := showSettings(s, fields)
	d.Seen[card] = seen
	if d.Hook = typedWebhook(c); d.Hook.Name+string(d.Hook.URL) != "" {
		d.Hooks = d.Hooks[:len(d.Hooks)-1] // it was not added
	}
	if fields[alert.ObjectivesField] != "" {
		d.Late = c.FormValue("objectives")
	}
	if sealed {
		d.Broken = rest.Error()
	}
	return h.Pages.Render(c, http.StatusUnprocessableEntity, "alert_settings", d)
}

// flashOthers shows, above the page, the errors in other cards than the one that was sent.
func (h *Handler) flashOthers(c echo.Context, fields map[string]string) {
	sent := h.sentCard(c)
	for field, text := range fields {
		if cardOf(strings.ReplaceAll(field, ".", "/")) != sent {
			h.Flashes.AddText(c, "danger", field+": "+text)
		}
	}
}

// Cards of the page: forms that are sent alone.
const (
	mailCard       = "mail"
	recipientsCard = "recipients"
	webhooksCard   = "webhooks"
	rulesCard      = "rules"
)

var cards = []string{mailCard, recipientsCard, webhooksCard, rulesCard}

// cardOf returns the card that an address or a field belongs to.
func cardOf(of string) string {
	card, _, _ := strings.Cut(of, "/")
	if !slices.Contains(cards, card) {
		return rulesCard
	}
	return card
}

func (h *Handler) sentCard(c echo.Context) string {
	return cardOf(strings.TrimPrefix(c.Path(), h.Pages.Path("/alerts")+"/"))
}

// typedMail reads the form. An empty password means the stored one, but only for the same server and user: it must not
// be sent to another server.
func (h *Handler) typedMail(c echo.Context, stored alert.Mail) (alert.Mail, error) {
	port, _ := strconv.Atoi(strings.TrimSpace(c.FormValue("mail.port")))
	m := alert.Mail{
		Host: strings.TrimSpace(c.FormValue("mail.host")), Port: port,
		Username: strings.TrimSpace(c.FormValue("mail.username")),
		Password: seal.Text(c.FormValue("mail.password")), TLS: c.FormValue("mail.tls"),
		From: strings.TrimSpace(c.FormValue("mail.from")),
	}
	if m.Username == "" || m.Password != "" || stored.Password == "" {
		return m, nil
	}
	if stored.Host != m.Host || stored.Username != m.Username {
		return m, page.FieldError("mail.password", "alerts.retype")
	}
	m.Password = stored.Password
	return m, nil
}

func (h *Handler) saveMail(c echo.Context) error {
	return h.changeSettings(c, func(s *alert.Settings) (err error) {
		s.Mail, err = h.typedMail(c, s.Mail)
		return err
	})
}

// channelTest is the result of testing a channel.
type channelTest struct {
	OK   bool
	Key  string   // key of the message
	To   string   // the recipient or webhook
	Text string   // the other side's answer, verbatim
	More []string // errors in the form
}

// testMail sends a mail with the form's values, before they are saved.
func (h *Handler) testMail(c echo.Context) error {
	stored, _ := alert.Read(h.Registry.Snapshot()) // under another key the password must be typed
	m, err := h.typedMail(c, stored.Mail)
	to := strings.TrimSpace(c.FormValue("to"))
	if err == nil {
		s := alert.Defaults()
		s.Mail, s.Recipients = m, []alert.Recipient{{Address: to}}
		err = s.Validate()
	}
	if err != nil {
		wrong := channelTest{Key: "alerts.test_form", More: h.errorTexts(c, err)}
		return h.Pages.Fragment(c, "partials/channel_test", wrong)
	}
	return h.showTest(c, to, h.SendMail(c.Request().Context(), m, to, h.testMessage(c)))
}

func (h *Handler) testMessage(c echo.Context) *alert.Message {
	say := func(key string, args ...any) string { return h.Texts.T(c, key, args...) }
	return alert.TestMessage(h.Host, h.AdminURL, say)
}

// showTest shows the result of a test, with the server's own error.
func (h *Handler) showTest(c echo.Context, to string, err error) error {
	if err != nil {
		return h.Pages.Fragment(c, "partials/channel_test", channelTest{Key: "alerts.test_failed", Text: err.Error()})
	}
	return h.Pages.Fragment(c, "partials/channel_test", channelTest{OK: true, Key: "alerts.test_sent", To: to})
}

// errorTexts returns the texts of joined errors.
func (h *Handler) errorTexts(c echo.Context, err error) []string {
	var list []string
	for _, e := range page.Flatten(err) {
		list = append(list, h.Texts.Explain(c, e))
	}
	return list
}

func (h *Handler) saveRecipients(c echo.Context) error {
	return h.changeSettings(c, func(s *alert.Settings) error {
		s.Recipients = []alert.Recipient{}
		for _, line := range lines(c.FormValue("recipients")) {
			var r alert.Recipient
			_ = r.UnmarshalText([]byte(line)) // never fails
			s.Recipients = append(s.Recipients, r)
		}
		return nil
	})
}

func (h *Handler) saveRules(c echo.Context) error {
	return h.changeSettings(c, func(s *alert.Settings) error { return readRules(s, c.FormValue) })
}

func (h *Handler) addWebhook(c echo.Context) error {
	return h.changeSettings(c, func(s *alert.Settings) error {
		s.Webhooks = append(s.Webhooks, typedWebhook(c))
		return nil
	})
}

func typedWebhook(c echo.Context) alert.Webhook {
	var only alert.Route
	_ = only.UnmarshalText([]byte(c.FormValue("webhooks.only"))) // never fails
	return alert.Webhook{
		Only: only,
		Name: strings.TrimSpace(c.FormValue("webhooks.name")), Preset: c.FormValue("preset"),
		URL: seal.Text(strings.TrimSpace(c.FormValue("webhooks.url"))), Template: c.FormValue("webhooks.template"),
	}
}

func (h *Handler) deleteWebhook(c echo.Context) error {
	return h.changeSettings(c, func(s *alert.Settings) error {
		s.Webhooks = slices.DeleteFunc(s.Webhooks, func(w alert.Webhook) bool { return w.Name == c.FormValue("name") })
		return nil
	})
}

func (h *Handler) testWebhook(c echo.Context) error {
	s, err := alert.Read(h.Registry.Snapshot())
	if err != nil {
		return err
	}
	i := slices.IndexFunc(s.Webhooks, func(w alert.Webhook) bool { return w.Name == c.FormValue("name") })
	if i < 0 {
		return echo.ErrNotFound
	}
	ctx, cancel := context.WithTimeout(c.Request().Context(), testLimit)
	defer cancel()
	return h.showTest(c, s.Webhooks[i].Name,
		alert.SendWebhook(ctx, h.Web, s.Webhooks[i], h.testMessage(c)))
}
