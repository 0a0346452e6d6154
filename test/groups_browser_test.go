package test

import (
	"testing"

	"github.com/wakecall/wakecall/test/harness"
)

// TestAGroupIsCancelledInTheBrowser: the search leads to the group, whose page says what a cancellation would do, and
// then what it did.
func TestAGroupIsCancelledInTheBrowser(t *testing.T) {
	t.Parallel()
	needProcesses(t)
	i := start(t, harness.Options{})
	one, two := i.topic(t, nil, M{}), "mail.remind"
	i.put(t, two, nil, M{})
	for _, topic := range []string{one, two} {
		i.MustPush(t, topic, M{"id": "remind", "group": "order-42", "body": 1, "delay": "1h"})
	}
	b := i.signIn(t)
	b.Open("/search?id=order-42")
	b.Submit(`.wk-found a[href$="/groups/order-42"]`)
	b.Shows(soon, "order-42", one, two)
	b.Fill(`#f-close`, "10m")
	b.Click(`form[action$="/groups/order-42"] button`)
	b.Shows(soon, "Cancel the group order-42? 2 waiting and dead jobs are deleted.")
	shots(b, "group-sure")
	b.Submit(`#wk-confirm [data-ok]`)
	b.Shows(soon, "2 jobs were deleted", "closed for 10m", "closed until", "This group has no jobs.")
	shots(b, "group-cancelled")
	b.Open("/audit?object=group/order-42")
	b.Shows(soon, "user/admin", "cancel", "2 → 0")
}
