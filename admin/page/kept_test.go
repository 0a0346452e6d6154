package page_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/wakecall/wakecall/admin"
	"github.com/wakecall/wakecall/admin/admintest"
	"github.com/wakecall/wakecall/internal/registry"
)

// awayEditor stores nothing, as while the database is unavailable.
type awayEditor struct{ admin.Editor }

func (awayEditor) PutTopic(context.Context, string, registry.Topic, ...registry.Condition) (bool, error) {
	return false, registry.ErrUnavailable
}

// TestAFormWaitsForTheDatabase: the page that says that the database is unavailable contains the input, which can be
// sent again from there, without passwords.
func TestAFormWaitsForTheDatabase(t *testing.T) {
	t.Parallel()
	s := admintest.Open(t, func(o *admin.Options) { o.Editor = awayEditor{o.Editor} }).As("root")
	status, body := s.Post("/topics/-/new?from=a", admintest.TopicForm("name", "shop.mail", "title", "Typed <b>",
		"password", "x-y-z")...)
	for _, want := range []string{`action="/topics/-/new?from=a"`, `name="title" value="Typed &lt;b&gt;"`,
		"Try again"} {
		if status != http.StatusServiceUnavailable || !strings.Contains(body, want) {
			t.Errorf("%d, without %s:\n%s", status, want, body)
		}
	}
	if strings.Contains(body, "x-y-z") {
		t.Error("a password is in the page")
	}
}
