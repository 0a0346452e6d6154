package callback

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

func TestTheOfficialVectorAndVerifierAgree(t *testing.T) {
	key := endpoint(t, EndpointSpec{URL: "http://h", Secrets: []string{"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"}}).keys
	at := time.Unix(1614265330, 0)
	m := content{own: sign(key, "msg_p5jXN8AQM9LWM0D4loKWxJek", at, []byte(`{"test": 2432232314}`))}
	h := m.header(&Endpoint{})
	if got := h.Get("webhook-signature"); got != "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=" {
		t.Fatalf("signature = %s", got)
	}

	old, next := "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"
	var ids []string
	url := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		ids = append(ids, r.Header.Get("webhook-id"))
		for _, secret := range []string{old, next} {
			wh, err := standardwebhooks.NewWebhook(secret)
			if err != nil {
				t.Error(err)
				return
			}
			if err := wh.Verify(body, r.Header); err != nil {
				t.Errorf("the verifier refuses it: %v", err)
			}
			flipped := append([]byte{body[0] ^ 1}, body[1:]...)
			if wh.Verify(flipped, r.Header) == nil {
				t.Error("the verifier accepts a flipped bit")
			}
		}
	})
	c := caller(t, Options{})
	e := endpoint(t, EndpointSpec{URL: url, Secrets: []string{old, next}})
	for attempt := range 2 {
		r := job()
		r.Attempt = attempt + 1
		c.Do(t.Context(), e, r)
	}
	other := job()
	other.CreatedAt = other.CreatedAt.Add(time.Second)
	c.Do(t.Context(), e, other)
	if len(ids) != 3 || ids[0] != ids[1] || ids[0] == ids[2] || strings.Contains(ids[0], ".") {
		t.Fatalf("ids = %q", ids)
	}
}
