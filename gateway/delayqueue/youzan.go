package delayqueue

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"github.com/wakecall/wakecall/gateway"
	"github.com/wakecall/wakecall/internal/store"
)

// A command, as described in Youzan's published design:
//
//	{"command": "add", "topic", "id", "delay": s, "TTR": s, "body"}
//	{"command": "pop", "topic"}       does not wait
//	{"command": "finish", "id"}
//	{"command": "delete", "id"}
//
// The answer is {"success", "error": the reason, "id", "value": the body}; only a pop's has the last two.
type command struct {
	Command string `json:"command"`
	pushRequest
}

type result struct {
	Success bool    `json:"success"`
	Error   string  `json:"error,omitempty"`
	ID      string  `json:"id,omitempty"`
	Value   *string `json:"value,omitempty"`
	lease   *store.Lease
}

func (g *Gateway) command(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		http.Error(w, http.StatusText(http.StatusMethodNotAllowed), http.StatusMethodNotAllowed)
		return
	}
	began := time.Now()
	var in command
	var out result
	err := g.read(w, r, &in)
	if err == nil {
		out, err = g.run(r.Context(), in)
	}
	if err != nil {
		out = result{Error: g.textOf(r, err)}
	}
	g.Observe("command", gateway.ResultOf(err), began)
	g.write(w, r, out, out.lease)
}

func (g *Gateway) run(ctx context.Context, in command) (result, error) {
	switch in.Command {
	case "add":
		_, _, err := g.push(ctx, in.pushRequest)
		return result{Success: err == nil}, err
	case "pop":
		return g.popNow(ctx, in.Topic)
	case "finish", "delete":
		_, _, err := g.remove(ctx, idRequest{ID: in.ID})
		return result{Success: err == nil}, err
	}
	text, _ := json.Marshal(in.Command) // never fails for a string
	return result{}, failure("unknown command " + string(text) + ": expected add, pop, finish or delete")
}

func (g *Gateway) popNow(ctx context.Context, topic string) (result, error) {
	topic = strings.TrimSpace(topic)
	if topic == "" {
		return result{}, failure(noPopTopic)
	}
	job, err := g.jobs.pop(ctx, []string{topic}, 0)
	if err != nil {
		return result{}, failed(notPopped, err)
	}
	if job == nil {
		return result{Success: true}, nil
	}
	body := string(job.Body)
	return result{Success: true, ID: job.ID, Value: &body, lease: job.Lease}, nil
}
