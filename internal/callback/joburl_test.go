package callback

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestAJobsOwnURL: another origin gets the job's headers and the signature, but none of the endpoint's headers.
func TestAJobsOwnURL(t *testing.T) {
	var got *http.Request
	own := serve(t, func(_ http.ResponseWriter, r *http.Request) { got = r })
	other := serve(t, func(_ http.ResponseWriter, r *http.Request) { got = r })
	c := caller(t, Options{})
	e := endpoint(t, EndpointSpec{
		URL: own + "/close?k=v", Headers: map[string]string{"Authorization": "Bearer shop", "SOAPAction": "close"},
		Fixed:   func(name string) bool { return strings.EqualFold(name, "Authorization") },
		Secrets: []string{"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"},
	})
	for url, want := range map[string]string{
		"": "Bearer shop", own + "/hooks/1?x=2": "Bearer shop",
		strings.ToUpper(own[:4]) + own[4:] + "/hooks/1": "Bearer shop",
		other + "/hooks/1": "Bearer job",
	} {
		r := job()
		r.URL, r.Headers = url, map[string]string{"Authorization": "Bearer job", "X-Own": "job"}
		got = nil
		if o := c.Do(t.Context(), e, r); o.Class != Success || got == nil {
			t.Fatalf("%s: %+v", url, o)
		}
		if url != "" && !strings.HasSuffix(strings.ToLower(url), got.URL.String()) {
			t.Errorf("%s: called %s", url, got.URL)
		}
		if v := got.Header.Get("Authorization"); v != want ||
			(got.Header["Soapaction"] != nil) != (want == "Bearer shop") ||
			got.Header.Get("X-Own") != "job" || got.Header.Get("Webhook-Signature") == "" {
			t.Errorf("%s: %v", url, got.Header)
		}
	}
	for _, url := range []string{"http://a b/", "/hooks", "%"} {
		r := job()
		r.URL = url
		if o := c.Do(t.Context(), e, r); o.Class != Failure || o.Reason != ReasonURL || !o.Unsent || o.EndpointDown {
			t.Errorf("%s: %+v", url, o)
		}
	}
}

// TestAJobsOwnURLKeepsItsParameters: as those of callback_url do.
func TestAJobsOwnURLKeepsItsParameters(t *testing.T) {
	var got *http.Request
	url := serve(t, func(_ http.ResponseWriter, r *http.Request) { got = r })
	r := job()
	r.URL, r.Body = url+"/own?k=mine", []byte(`{"k":"body","b":1}`)
	caller(t, Options{}).Do(t.Context(), endpoint(t, EndpointSpec{URL: url + "/?t=1", Method: http.MethodGet}), r)
	if q := got.URL.Query(); got.URL.Path != "/own" || q.Get("k") != "mine" || q.Get("b") != "1" || q.Has("t") {
		t.Errorf("called %s", got.URL)
	}
}

// TestCloudEvents: the attributes of binary mode, encoded as the HTTP binding says.
func TestCloudEvents(t *testing.T) {
	var got http.Header
	url := serve(t, func(_ http.ResponseWriter, r *http.Request) { got = r.Header })
	c := caller(t, Options{})
	r := job()
	r.ID, r.Headers = `Euro € "😀" 5%`, map[string]string{"ce-id": "forged", "ce-tenant": "shop"}
	c.Do(t.Context(), endpoint(t, EndpointSpec{URL: url, CloudEvents: true}), r)
	for name, want := range map[string]string{
		"specversion": "1.0", "id": messageID(r), "source": "/v1/topics/shop.close", "type": "shop.close",
		"subject": "Euro%20%E2%82%AC%20%22%F0%9F%98%80%22%205%25", "time": "2023-11-14T22:13:20.123Z", "tenant": "shop",
	} {
		if v := got.Get("ce-" + name); v != want {
			t.Errorf("ce-%s: %q; want %q", name, v, want)
		}
	}
	id := got.Get("ce-id")
	r.Attempt++
	if c.Do(t.Context(), endpoint(t, EndpointSpec{URL: url, CloudEvents: true}), r); got.Get("ce-id") != id {
		t.Error("the second attempt has another id")
	}
	r.CreatedAt = r.CreatedAt.Add(time.Second)
	if c.Do(t.Context(), endpoint(t, EndpointSpec{URL: url, CloudEvents: true}), r); got.Get("ce-id") == id {
		t.Error("a job that was pushed later has the same id")
	}
	c.Do(t.Context(), endpoint(t, EndpointSpec{URL: url}), job())
	for name := range got {
		if strings.HasPrefix(strings.ToLower(name), "ce-") {
			t.Errorf("%s, though the topic has no CloudEvents", name)
		}
	}
}
