package page

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"

	"github.com/labstack/echo/v4"
)

// Kept is a form that could not be processed because its session had expired, or a server that the change needs did not
// answer. The error page contains the form, so the user can send it again; nothing is stored on the server. Passwords
// are left out.
type Kept struct {
	Action string     // a path below the base path; empty: no form
	Fields url.Values // what was typed
}

// keptPlace is where a sealed form is valid.
const keptPlace = "kept form"

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

// SealKept returns a form as text for the sign-in page, which anybody may see: a form may contain secrets, such as the
// headers of a topic. It is empty for no form.
func (p *Pages) SealKept(k Kept) string {
	if k.Action == "" {
		return ""
	}
	text, err := json.Marshal(k)
	if err != nil {
		return ""
	}
	sealed, err := p.Key.Seal(keptPlace, string(text))
	if err != nil {
		p.Log.Warn("a form cannot be kept until its user has signed in", "error", err)
	}
	_, sealed, _ = strings.Cut(sealed, ":") // without its prefix, which contains a NUL, invalid in HTML
	return sealed
}

// OpenKept returns the form that SealKept sealed; an invalid text has none.
func (p *Pages) OpenKept(sealed string) (k Kept) {
	text, err := p.Key.Open(keptPlace, sealed)
	if err != nil || json.Unmarshal([]byte(text), &k) != nil {
		return Kept{}
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
