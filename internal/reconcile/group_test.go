package reconcile

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/wakecall/wakecall/internal/store"
)

// TestRecoveryOfACancelledGroup: whatever Redis lost, the jobs that were deleted with their group stay away, others of
// the group come back into it, and it is closed for as long as it was.
func TestRecoveryOfACancelledGroup(t *testing.T) {
	for lost, at := range []string{"members", "the cancellation", "later members", "nothing"} {
		t.Run(at, func(t *testing.T) {
			t.Parallel()
			h, in, client := oneHost(t)
			var saved []memory
			push := func(topic, id string) error {
				p := store.Push{Topic: topic, ID: id, Group: "order 42", Delay: time.Hour}
				return h.queue.Push(t.Context(), p).Err
			}
			list := func() (ids []string) {
				g, err := h.queue.Group(t.Context(), "order 42", []string{"*"}, 100)
				if err != nil {
					t.Fatal(err)
				}
				for _, j := range g.Jobs {
					ids = append(ids, fmt.Sprint(j.Topic, "/", j.ID))
				}
				slices.Sort(ids)
				return ids
			}
			save := func() { saved = append(saved, remember(t, client)) }
			save()
			for i := range 3 {
				if err := errors.Join(push("orders.close", fmt.Sprint(i)), push("other", fmt.Sprint(i))); err != nil {
					t.Fatal(err)
				}
			}
			due := time.Now().Add(2 * time.Hour)
			if err := h.change(t.Context(), "orders.close", "2", store.Change{DueAt: &due}); err != nil {
				t.Fatal(err)
			}
			save()
			if c, err := h.queue.CancelGroup(t.Context(), "order 42", []string{"orders.*"}, 0); err != nil || c.Deleted != 3 {
				t.Fatal(c, err)
			}
			save()
			if err := push("orders.close", "1"); err != nil { // again
				t.Fatal(err)
			}
			if _, err := h.queue.CancelGroup(t.Context(), "order 42", []string{"refunds"}, time.Hour); err != nil {
				t.Fatal(err)
			}
			save()
			saved[lost].forget(t, client)
			client.HDel(t.Context(), "wk:{0}:cmp", "run") // another server
			attendAll(t, in)
			ready(t, h)
			want := []string{"orders.close/1", "other/0", "other/1", "other/2"}
			if got := list(); !slices.Equal(got, want) {
				t.Errorf("the group has %q, want %q", got, want)
			}
			if err := push("refunds", "1"); !errors.Is(err, store.ErrClosed) {
				t.Error("push into the closed group:", err)
			}
		})
	}
}

// TestRecoveryReportsCancelledJobsAsDeleted, and the others of the group as what they are.
func TestRecoveryReportsCancelledJobsAsDeleted(t *testing.T) {
	h, in, _ := oneHost(t)
	attendAll(t, in)
	ready(t, h)
	for _, topic := range []string{"orders.close", "orders.remind", "other"} {
		p := store.Push{Topic: topic, ID: "1", Group: "order 42", Delay: time.Hour}
		if err := h.queue.Push(t.Context(), p).Err; err != nil {
			t.Fatal(err)
		}
	}
	if c, err := h.queue.CancelGroup(t.Context(), "order 42", []string{"orders.*"}, 0); err != nil || c.Deleted != 2 {
		t.Fatal(c, err)
	}
	for _, dry := range []bool{true, false} {
		r, err := h.recover(t.Context(), dry)
		if err != nil || r.Jobs != 3 || r.Deleted != 2 || r.There != 1 || r.Missing != 0 {
			t.Errorf("dry %v: %+v, %v", dry, r, err)
		}
	}
}

// TestNoPushIntoAGroupIsEarly: whether a group is closed is not known before the bucket is compared.
func TestNoPushIntoAGroupIsEarly(t *testing.T) {
	h, in, client := oneHost(t)
	attendAll(t, in)
	ready(t, h)
	if _, err := h.queue.CancelGroup(t.Context(), "order 42", []string{"*"}, time.Hour); err != nil {
		t.Fatal(err)
	}
	client.FlushAll(t.Context())
	if _, err := in.send(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	for _, p := range []store.Push{
		{Topic: "t", ID: store.NewID(), Fresh: true, Group: "order 42"},
		{Topic: "t", ID: "1", OnDuplicate: store.Replace, Group: "order 42"},
	} {
		r := h.queue.Push(t.Context(), p)
		if _, refused := errors.AsType[*store.UnavailableError](r.Err); !refused && !errors.Is(r.Err, store.ErrClosed) {
			t.Errorf("push into a closed group: %+v", r)
		}
	}
}
