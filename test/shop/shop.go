// Package shop is the service that the tests of docs/guides/testing.md test: orders that are closed when they have not
// been paid for 30 minutes.
package shop

import (
	"encoding/json"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/wakecall/wakecall/client"
)

// Shop is the service. The state of an order is open, paid or closed.
type Shop struct {
	wakecall *client.Client

	mu     sync.Mutex
	orders map[string]string
}

// New returns the service's handler.
func New(c *client.Client) http.Handler {
	s := &Shop{wakecall: c, orders: map[string]string{}}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /orders/{id}", s.create)
	mux.HandleFunc("GET /orders/{id}", s.show)
	mux.HandleFunc("POST /orders/{id}/pay", s.pay)
	mux.HandleFunc("POST /hooks/close", s.close)
	return mux
}

func (s *Shop) create(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("id")
	s.change(id, "", "open")
	body, err := json.Marshal(id)
	if err == nil {
		_, err = s.wakecall.Push(r.Context(), "order.close", client.Push{
			ID: id, Body: body, Delay: client.After(30 * time.Minute),
		})
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
	}
}

func (s *Shop) pay(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("id")
	s.change(id, "open", "paid")
	if err := s.wakecall.Delete(r.Context(), "order.close", id); err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
	}
}

func (s *Shop) show(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, _ = io.WriteString(w, s.orders[r.PathValue("id")])
}

// close is the endpoint.
func (s *Shop) close(w http.ResponseWriter, r *http.Request) {
	var id string
	if err := json.NewDecoder(r.Body).Decode(&id); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	s.change(id, "open", "closed")
}

func (s *Shop) change(id, from, to string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.orders[id] == from {
		s.orders[id] = to
	}
}
