package page

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/labstack/echo/v4"
)

// Kept is a form that could not be processed: its session had expired, or a server that the change needs did not
// answer. The error page contains the form, so that no input is stored or lost, and the user can send it
// again. Passwords are left out.
type Kept struct {
	Action string     // a path below the base path; empty: no form
	Fields url.Values // what was typed
}

const (
	keptAction = "kept-action"
	keptField  = "kept." // prefix of its fields' names
)

// Keep returns the form of a request.
func Keep(c echo.Context) Kept {
	r := c.Request()
	form := strings.HasPrefix(r.Header.Get(echo.HeaderContentType), echo.MIMEApplicationForm)
	if r.Method != http.MethodPost || !form || IsFragment(c) || r.ParseForm() != nil {
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

// KeptOf returns the form that the sign-in page carried.
func KeptOf(c echo.Context) Kept {
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

// Lines returns the fields for a template.
func (k Kept) Lines() (list []struct{ Name, Value string }) {
	for _, name := range SortedKeys(k.Fields) {
		for _, value := range k.Fields[name] {
			list = append(list, struct{ Name, Value string }{name, value})
		}
	}
	return list
}
