package wakecalltest_test

import (
	"encoding/json"
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/wakecall/wakecall/client"
	"github.com/wakecall/wakecall/client/wakecalltest"
)

// TestFake: what a unit test asks. That it answers as a server does is tested beside a server.
func TestFake(t *testing.T) {
	fake := wakecalltest.NewFake("order.close", "order.mail")
	order := func(p client.Pusher, topic, id string) error {
		_, err := p.Push(t.Context(), topic, client.Push{
			ID: id, Body: json.RawMessage(`{"order":42}`), Delay: client.After(30 * time.Minute),
		})
		return err
	}
	fake.FailWith(client.ErrUnreachable)
	if err := order(fake, "order.close", "1"); !errors.Is(err, client.ErrUnreachable) || len(fake.Pushed("order.close")) > 0 {
		t.Errorf("%v, and the job was stored", err)
	}
	fake.FailWith(nil)
	for range 2 { // the second is a duplicate
		if err := order(fake, "order.close", "1"); err != nil {
			t.Error(err)
		}
	}
	push := fake.RequirePushed(t, "order.close")
	if push.ID != "1" || string(push.Body) != `{"order":42}` || *push.Delay != 30*time.Minute {
		t.Errorf("pushed %+v", push)
	}
	if !fails(func(t testing.TB) { fake.RequirePushed(t, "order.mail") }) {
		t.Error("a topic without a push did not fail the test")
	}
	for _, id := range []string{"1", ""} {
		if err := order(fake, "order.mail", id); err != nil {
			t.Error(err)
		}
	}
	if pushes := fake.Pushed("order.mail"); len(pushes) != 2 || pushes[0].ID != "1" || pushes[1].ID == "" {
		t.Errorf("pushed %+v", pushes)
	}
	if !fails(func(t testing.TB) { fake.RequirePushed(t, "order.mail") }) {
		t.Error("a topic with two pushes did not fail the test")
	}
}

// failing is a test that has failed or not.
type failing struct {
	testing.TB
	failed bool
}

func (f *failing) Helper() {}

func (f *failing) Fatalf(string, ...any) {
	f.failed = true
	runtime.Goexit()
}

func fails(test func(testing.TB)) bool {
	var f failing
	done := make(chan struct{})
	go func() {
		defer close(done)
		test(&f)
	}()
	<-done
	return f.failed
}
