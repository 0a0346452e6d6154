package alert

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestRecipientsGetTheirRoutes, by severity, topic and owner.
func TestRecipientsGetTheirRoutes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDay(t, "all@test.example", "bad@test.example critical", "shop@test.example shop.*",
			"pay@test.example owner=pay critical", "Info <info@test.example> info")
		d.happens = func(time.Duration) []Finding {
			return []Finding{
				fails("pay.card"), isLate("pay.refund"), isLate("shop.close"), down,
				{Topic: "x.paused", Cause: Cause{Kind: "paused", Severity: Info, N: 7}},
			}
		}
		d.pass(t, 2*time.Minute)
		for to, want := range map[string]string{
			"all@test.example": "pay.card pay.refund shop.close shard a", "bad@test.example": "pay.card shard a",
			"shop@test.example": "shop.close", "pay@test.example": "pay.card",
			"info@test.example": "pay.card pay.refund shop.close shard a x.paused",
		} {
			for _, name := range []string{"pay.card", "pay.refund", "shop.close", "shard a", "x.paused"} {
				if has := strings.Contains(d.log(to), name); has != strings.Contains(want, name) {
					t.Errorf("%s gets a mail about %s: %v:%s", to, name, has, d.log(to))
				}
			}
		}
	})
}

// TestRoutesAreParsed from text and stored as text.
func TestRoutesAreParsed(t *testing.T) {
	t.Parallel()
	for typed, valid := range map[string]bool{
		"ops@test.example": true, "Ops <ops@test.example> critical shop.* owner=pay": true,
		"ops@test.example a*b": false,
		"nobody":               false, "": false,
	} {
		var r Recipient
		if err := r.UnmarshalText([]byte(typed)); err != nil {
			t.Fatal(err)
		}
		if err := r.validate(); (err == nil) != valid {
			t.Errorf("%q: %v", typed, err)
		}
		if r.String() != typed {
			t.Errorf("%q is written as %q", typed, r.String())
		}
	}
}
