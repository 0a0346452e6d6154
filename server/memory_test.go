package server_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/server"
)

// TestLimitOfMemory: large requests that wait do not fill the memory, and small ones continue.
func TestLimitOfMemory(t *testing.T) {
	a := newAPI(t, func(o *server.Options) { o.Limits.MaxBuffered = 300 << 10 })
	a.jobs.hold, a.jobs.holding = make(chan struct{}), make(chan struct{}, 2)
	large := `{"body":"` + strings.Repeat("x", 200<<10) + `"}`
	first := make(chan int)
	go func() {
		req, err := http.NewRequest(http.MethodPost, a.url+orders, strings.NewReader(large))
		if err != nil {
			panic(err)
		}
		req.Header.Set("Authorization", "Bearer "+a.token)
		first <- a.send(req).status
	}()
	<-a.jobs.holding
	a.do("POST", orders, large).problem(503, "", "large")
	a.do("GET", "/healthz", "").want(200)
	close(a.jobs.hold)
	if got := <-first; got != 201 {
		t.Errorf("the first request: %d", got)
	}
	a.do("POST", orders, large).want(201)
}

// TestLimitOfMemoryAsABodyArrives: clients that announce large bodies and send nothing block no other client.
func TestLimitOfMemoryAsABodyArrives(t *testing.T) {
	r := start(t, listen(t), func(o *server.Options) { o.Limits.MaxBuffered = 300 << 10 })
	for range 10 {
		_, _ = io.WriteString(r.begin(t, largePush), "{")
	}
	c := r.begin(t, largePush)
	if _, err := io.WriteString(c, large()); err != nil {
		t.Fatal(err)
	}
	if got := status(t, c); got != http.StatusCreated {
		t.Errorf("a push meanwhile was answered %d", got)
	}
}

// TestLimitOfMemoryOfAToken: the large requests of one token leave room for those of another.
func TestLimitOfMemoryOfAToken(t *testing.T) {
	a := newAPI(t, func(o *server.Options) { o.Limits.MaxBuffered = 4 * largePush })
	other := a.registry.grant("other", "*", registry.RightPush)
	a.jobs.hold, a.jobs.holding = make(chan struct{}), make(chan struct{}, 4)
	answered := make(chan int, 4)
	push := func(token string) {
		req, err := http.NewRequest(http.MethodPost, a.url+orders, strings.NewReader(large()))
		if err != nil {
			panic(err)
		}
		req.Header.Set("Authorization", "Bearer "+token)
		answered <- a.send(req).status
	}
	for range 3 {
		go push(a.token)
		<-a.jobs.holding
	}
	a.do("POST", orders, large()).problem(http.StatusServiceUnavailable, "", "of this token")
	go push(other)
	<-a.jobs.holding
	close(a.jobs.hold)
	for range 4 {
		if got := <-answered; got != http.StatusCreated {
			t.Errorf("answered %d", got)
		}
	}
	a.do("POST", orders, large()).want(http.StatusCreated)
}
