package access

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/wakecall/wakecall/admin/page"
)

// Kept is a form that was sent after its session had expired. The page for signing in carries it, so that nothing is
// stored for strangers; who has signed in is asked whether to send it. Passwords are left out.
type Kept struct {
	Action string     // a path below the base path; empty: there is no form
	Fields url.Values // what was typed
}

const (
	keptAction = "kept-action"
	keptField  = "kept." // before the names of its fields
)

// keep takes the form of a request whose session is no longer there. Strangers never had one.
func (h *Handler) keep(c echo.Context) Kept {
	r := c.Request()
	form := strings.HasPrefix(r.Header.Get(echo.HeaderContentType), echo.MIMEApplicationForm)
	if _, err := c.Cookie(sessionCookie); err != nil || r.Method != http.MethodPost || !form || page.IsFragment(c) {
		return Kept{}
	}
	if err := r.ParseForm(); err != nil {
		return Kept{}
	}
	k := Kept{Action: r.URL.RequestURI(), Fields: url.Values{}}
	for name, values := range r.PostForm {
		if !strings.Contains(name, "password") && name != "current" && name != "again" {
			k.Fields[name] = values
		}
	}
	if len(k.Fields) == 0 {
		return Kept{}
	}
	return k
}

// keptOf reads the form that the page for signing in carried.
func keptOf(c echo.Context) Kept {
	form, err := c.FormParams()
	if err != nil || !strings.HasPrefix(form.Get(keptAction), "/") || strings.HasPrefix(form.Get(keptAction), "//") {
		return Kept{}
	}
	k := Kept{Action: form.Get(keptAction), Fields: url.Values{}}
	for name, values := range form {
		if of, is := strings.CutPrefix(name, keptField); is {
			k.Fields[of] = values
		}
	}
	return k
}

// Lines are the fields as a template shows them.
func (k Kept) Lines() (list []struct{ Name, Value string }) {
	for _, name := range page.SortedKeys(k.Fields) {
		for _, value := range k.Fields[name] {
			list = append(list, struct{ Name, Value string }{name, value})
		}
	}
	return list
}
