package topics_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/wakecall/wakecall/admin"
	"github.com/wakecall/wakecall/admin/admintest"
	"github.com/wakecall/wakecall/internal/callback"
	"github.com/wakecall/wakecall/internal/observe"
	"github.com/wakecall/wakecall/internal/registry"
)

// TestAnEndpointIsTried: the complete request, the answer, and the finding for an endpoint that does not check
// signatures.
func TestAnEndpointIsTried(t *testing.T) {
	t.Parallel()
	endpoint := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_,
			_ = io.WriteString(w, `{"code":0,"said":"<b>"}`)
	}))
	defer endpoint.Close()
	q := admintest.RealQueue(t)
	caller, err := callback.New(callback.Options{Version: "test"})
	if err != nil {
		t.Fatal(err)
	}
	defer caller.Close()
	s := admintest.Open(t, func(o *admin.Options) { o.Queue, o.Caller = observe.Figures{Queue: q}, caller })
	topic := registry.NewTopic("shop.close")
	topic.CallbackURL, topic.Secrets = endpoint.URL, []string{"whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="}
	if _, err := s.Registry.PutTopic(t.Context(), "test", topic); err != nil {
		t.Fatal(err)
	}
	s.As("ops")
	if _, body := s.Post("/topics/shop.close/test", "do", "call", "body", `{"a":1}`); !strings.Contains(body,
		"Webhook-Signature: v1,") || !strings.Contains(body, "&lt;b&gt;") {
		t.Errorf("the test callback: %s", body)
	}
	if _, body := s.Post("/topics/shop.close/test", "do", "doctor", "body", `{"a":1}`); !strings.Contains(body,
		"does not verify webhook-signature") {
		t.Errorf("the doctor: %s", body)
	}
	if status, _ := s.Post("/topics/shop.close/test", "do", "call", "body",
		`{`); status != http.StatusUnprocessableEntity {
		t.Errorf("a body that is no JSON: %d", status)
	}
}
