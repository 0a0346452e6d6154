package admin

import (
	"context"
	"errors"
	"net/http"
	"net/mail"
	"slices"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/wakecall/wakecall/registry"
)

func (a *Admin) alertsRoutes(g *echo.Group) {
	admin := func(h echo.HandlerFunc) echo.HandlerFunc { return a.need(registry.RoleAdmin, h) }
	g.GET("/alerts", a.alertsPage)
	g.GET("/alerts/deliveries", a.deliveriesPage)
	g.GET("/alerts/settings", admin(a.alertSettings))
	g.POST("/alerts/mail", admin(a.saveMail))
	g.POST("/alerts/mail/test", admin(a.testMail))
	g.POST("/alerts/recipients", admin(a.saveRecipients))
	g.POST("/alerts/rules", admin(a.saveRules))
	g.POST("/alerts/webhooks", admin(a.addWebhook))
	g.POST("/alerts/webhooks/change", admin(a.changeWebhook))
	g.POST("/alerts/webhooks/test", admin(a.testWebhook))
}

const alertsEach = 50

type alertsData struct {
	Open, Ended []registry.Alert
	Kind        string
	Kinds       []string
	Next        uint64 // older than this one; 0: there are no more
	NoStore     bool
	MailOff     bool
}

func (a *Admin) alertsPage(c echo.Context) error {
	d := alertsData{Kind: c.QueryParam("kind")}
	for _, k := range ruleKinds {
		d.Kinds = append(d.Kinds, k.Name)
	}
	var m MailSettings
	_, err := a.setting(settingMail, &m)
	d.MailOff = err == nil && !m.Enabled && len(a.webhooks()) == 0
	store := a.opts.Pages.Alerts
	if store == nil {
		d.NoStore = true
		return a.render(c, http.StatusOK, "alerts", d)
	}
	ctx := c.Request().Context()
	open, ended := true, false
	before, _ := strconv.ParseUint(c.QueryParam("before"), 10, 64)
	if d.Open, err = store.ListAlerts(ctx, registry.AlertFilter{Open: &open, Kind: d.Kind, Limit: 200}); err != nil {
		return err
	}
	if d.Ended, err = store.ListAlerts(ctx, registry.AlertFilter{Open: &ended, Kind: d.Kind, Before: before, Limit: alertsEach + 1}); err != nil {
		return err
	}
	if len(d.Ended) > alertsEach {
		d.Ended = d.Ended[:alertsEach]
		d.Next = d.Ended[alertsEach-1].ID
	}
	return a.render(c, http.StatusOK, "alerts", d)
}

func (a *Admin) deliveriesPage(c echo.Context) error {
	var list []registry.AlertDelivery
	if store := a.opts.Pages.Alerts; store != nil {
		var err error
		if list, err = store.ListDeliveries(c.Request().Context(), 200); err != nil {
			return err
		}
	}
	return a.render(c, http.StatusOK, "alert_deliveries", list)
}

// setting reads a setting, which may be missing.
func (a *Admin) setting(name string, into any) (bool, error) {
	return a.registry.Snapshot().Setting(name, into)
}

func (a *Admin) webhooks() []Webhook {
	var list []Webhook
	if _, err := a.setting(settingWebhooks, &list); err != nil {
		return nil
	}
	return list
}

type alertSettingsData struct {
	Mail       MailSettings
	HasPass    bool
	TLS        []string
	Recipients string
	Rules      AlertRules
	Kinds      []ruleKind
	Webhooks   []Webhook
	Presets    []string
	Webhook    Webhook // being added
	Errors     map[string]string
	Broken     string // what cannot be read, such as without the secret key
}

func (a *Admin) readAlertSettings() alertSettingsData {
	d := alertSettingsData{TLS: mailTLS, Kinds: ruleKinds, Presets: webhookPresets, Mail: MailSettings{Port: 587, TLS: "starttls"}}
	var recipients []Recipient
	for name, into := range map[string]any{
		settingMail: &d.Mail, settingRecipients: &recipients, settingRules: &d.Rules, settingWebhooks: &d.Webhooks,
	} {
		if _, err := a.setting(name, into); err != nil {
			d.Broken = err.Error()
		}
	}
	d.Recipients = writeRecipients(recipients)
	d.HasPass = d.Mail.Password != ""
	d.Mail.Password = ""
	return d
}

func (a *Admin) alertSettings(c echo.Context) error {
	return a.render(c, http.StatusOK, "alert_settings", a.readAlertSettings())
}

// keep stores a setting, or shows the form again with what is wrong; change puts what was typed into it.
func (a *Admin) keep(c echo.Context, name string, value any, err error, change func(*alertSettingsData)) error {
	if err == nil {
		err = a.registry.PutSetting(c.Request().Context(), actor(c), name, value)
	}
	fields, rest := fieldErrors(err)
	sealed := errors.Is(rest, registry.ErrSecretKey)
	if rest != nil && !sealed {
		return rest
	}
	if len(fields) > 0 || sealed {
		d := a.readAlertSettings()
		d.Errors = fields
		if sealed {
			d.Broken = rest.Error()
		}
		change(&d)
		return a.render(c, http.StatusUnprocessableEntity, "alert_settings", d)
	}
	a.flash(c, "success", "alerts.saved")
	return a.redirect(c, "/alerts/settings")
}

// typedMail reads the form. An empty password means the one that is kept, for the same server and user only: it is sent nowhere else.
func (a *Admin) typedMail(c echo.Context) (MailSettings, error) {
	port, _ := strconv.Atoi(strings.TrimSpace(c.FormValue("port")))
	m := MailSettings{
		Enabled: c.FormValue("enabled") != "", Host: strings.TrimSpace(c.FormValue("host")), Port: port,
		User: strings.TrimSpace(c.FormValue("user")), Password: registry.Sealed(c.FormValue("password")), TLS: c.FormValue("tls"),
		From: strings.TrimSpace(c.FormValue("from")),
	}
	var stored MailSettings
	if _, err := a.setting(settingMail, &stored); err != nil || m.User == "" || m.Password != "" || stored.Password == "" {
		return m, m.validate()
	}
	if stored.Host != m.Host || stored.User != m.User {
		return m, &registry.FieldError{Field: "password", Detail: a.t(c, "alerts.retype")}
	}
	m.Password = stored.Password
	return m, m.validate()
}

func (a *Admin) saveMail(c echo.Context) error {
	m, err := a.typedMail(c)
	return a.keep(c, settingMail, m, err, func(d *alertSettingsData) { d.Mail = m; d.Mail.Password = "" })
}

// channelTest is what came of trying a channel.
type channelTest struct {
	OK   bool
	Key  string   // of what to say
	To   string   // where it went
	Text string   // what the other side said, as it is
	More []string // what is wrong with the form
}

// testMail sends a mail with what the form has, before it is saved.
func (a *Admin) testMail(c echo.Context) error {
	m, err := a.typedMail(c)
	m.Enabled = true
	if err == nil {
		err = m.validate()
	}
	to := strings.TrimSpace(c.FormValue("to"))
	if address, bad := mail.ParseAddress(to); err == nil && bad != nil {
		err = fieldError("to", "%q is not a mail address", to)
	} else if bad == nil {
		to = address.Address
	}
	if err != nil {
		return a.fragment(c, "partials/channel_test", channelTest{Key: "alerts.test_form", More: said(err)})
	}
	if a.opts.Pages.TestMail == nil {
		return a.fragment(c, "partials/channel_test", channelTest{Key: "alerts.test_none"})
	}
	ctx, cancel := context.WithTimeout(c.Request().Context(), testLimit)
	defer cancel()
	transcript, err := a.opts.Pages.TestMail(ctx, m, to)
	if err != nil {
		return a.fragment(c, "partials/channel_test", channelTest{Key: "alerts.test_failed", Text: strings.TrimSpace(transcript + "\n" + err.Error())})
	}
	return a.fragment(c, "partials/channel_test", channelTest{OK: true, Key: "alerts.test_sent", To: to, Text: transcript})
}

// said lists joined errors.
func said(err error) []string {
	var list []string
	for _, e := range flatten(err) {
		list = append(list, e.Error())
	}
	return list
}

func (a *Admin) saveRecipients(c echo.Context) error {
	text := c.FormValue("recipients")
	list, err := readRecipients(text)
	return a.keep(c, settingRecipients, list, err, func(d *alertSettingsData) { d.Recipients = text })
}

func (a *Admin) saveRules(c echo.Context) error {
	r, err := readRules(c.FormValue)
	return a.keep(c, settingRules, r, err, func(d *alertSettingsData) { d.Rules = r })
}

func (a *Admin) addWebhook(c echo.Context) error {
	w := Webhook{
		Name: strings.TrimSpace(c.FormValue("webhook_name")), Preset: c.FormValue("preset"),
		URL: registry.Sealed(strings.TrimSpace(c.FormValue("webhook_url"))), Enabled: true,
	}
	list := a.webhooks()
	err := w.validate()
	if err == nil && slices.ContainsFunc(list, func(o Webhook) bool { return o.Name == w.Name }) {
		err = fieldError("webhook_name", "there is a webhook %s already", w.Name)
	}
	return a.keep(c, settingWebhooks, append(list, w), err, func(d *alertSettingsData) { d.Webhook = w; d.Webhook.URL = "" })
}

// changeWebhook switches one on or off, or takes it away.
func (a *Admin) changeWebhook(c echo.Context) error {
	list := a.webhooks()
	i := slices.IndexFunc(list, func(w Webhook) bool { return w.Name == c.FormValue("name") })
	if i < 0 {
		return echo.ErrNotFound
	}
	if c.FormValue("do") == "delete" {
		list = slices.Delete(list, i, i+1)
	} else {
		list[i].Enabled = !list[i].Enabled
	}
	return a.keep(c, settingWebhooks, list, nil, func(*alertSettingsData) {})
}

func (a *Admin) testWebhook(c echo.Context) error {
	for _, w := range a.webhooks() {
		if w.Name != c.FormValue("name") {
			continue
		}
		if a.opts.Pages.TestWebhook == nil {
			return a.fragment(c, "partials/channel_test", channelTest{Key: "alerts.test_none"})
		}
		ctx, cancel := context.WithTimeout(c.Request().Context(), testLimit)
		defer cancel()
		answer, err := a.opts.Pages.TestWebhook(ctx, w)
		if err != nil {
			return a.fragment(c, "partials/channel_test", channelTest{Key: "alerts.test_failed", Text: strings.TrimSpace(answer + "\n" + err.Error())})
		}
		return a.fragment(c, "partials/channel_test", channelTest{OK: true, Key: "alerts.test_sent", To: w.Name, Text: answer})
	}
	return echo.ErrNotFound
}
