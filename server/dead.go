package server

import (
	"net/http"
	"net/url"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/wakecall/wakecall/internal/bulk"
	"github.com/wakecall/wakecall/internal/store"
)

// Limits of a request for dead jobs.
const (
	maxDeadIDs   = 1000
	maxDeadLimit = 100_000
	maxDeadBytes = 1 << 20
)

func (s *Server) retryDead(c *call) error { return s.dead(c, store.Redriven) }

func (s *Server) deleteDead(c *call) error { return s.dead(c, store.DeadDeleted) }

func (s *Server) dead(c *call, kind store.ChangeKind) error {
	return s.withBody(c, maxDeadBytes, func(body *buffer) error {
		chosen, err := decodeSelection(body.b, c.topic.Name)
		if err != nil {
			return err
		}
		n, err := s.onDead(c, chosen, kind)
		if err != nil {
			return err
		}
		return s.answer(c, http.StatusOK, map[string]int{"count": n})
	})
}

// onDead acts on the selected jobs, or only counts them.
func (s *Server) onDead(c *call, chosen selection, kind store.ChangeKind) (total int, err error) {
	if chosen.filter == nil {
		what := store.DeadCall{Kind: kind, Topic: c.topic.Name, IDs: chosen.ids, Limit: chosen.limit}
		return s.jobs.EndDead(c.editing(), what)
	}
	ids, total, err := chosen.filter.Select(c.ctx(), s.jobs, chosen.limit)
	if err != nil || chosen.dryRun {
		return total, err
	}
	total = 0
	for topic, ids := range ids { // an id may exist in several topics of a namespace
		n, err := s.jobs.EndDead(c.editing(), store.DeadCall{Kind: kind, Topic: topic, IDs: ids})
		if total += n; err != nil {
			return total, err
		}
	}
	return total, nil
}

// selection selects dead jobs: those with the given ids, or up to limit of the oldest that match the filter.
type selection struct {
	ids    []string
	limit  int
	filter *bulk.Filter
	dryRun bool
}

func decodeSelection(data []byte, topic string) (chosen selection, err error) {
	var r struct {
		IDs    field[[]string]           `json:"ids"`
		Limit  field[integer]            `json:"limit"`
		Filter field[object[deadFilter]] `json:"filter"`
		DryRun field[bool]               `json:"dry_run"`
	}
	if err := decode(data, &r); err != nil {
		return chosen, err
	}
	if r.IDs.given == r.Limit.given {
		return chosen, badField("ids", "required: either ids or limit")
	}
	if r.Limit.given {
		chosen.dryRun = r.DryRun.value
		if chosen.limit, err = r.Limit.value.between("limit", 1, maxDeadLimit); err == nil &&
			(r.Filter.given || chosen.dryRun) {
			chosen.filter, err = r.Filter.value.is.of(topic)
		}
		return chosen, err
	}
	if r.Filter.given || r.DryRun.given {
		return chosen, badField("filter", "filter and dry_run require limit")
	}
	chosen.ids = r.IDs.value
	if len(chosen.ids) == 0 || len(chosen.ids) > maxDeadIDs {
		return chosen, outOfRange("ids", "must have 1 to %d ids, got %d", maxDeadIDs, len(chosen.ids))
	}
	for _, id := range chosen.ids {
		if err := checkID("ids", id); err != nil {
			return chosen, err
		}
	}
	return chosen, nil
}

// deadFilter selects dead jobs.
type deadFilter struct {
	outcomeFilter
	Prefix field[string] `json:"prefix"`
}

// outcomeFilter selects jobs by their last attempts, and by when they died.
type outcomeFilter struct {
	Status field[integer] `json:"status"`
	Error  field[string]  `json:"error"`
	Reason field[string]  `json:"reason"`
	Since  field[moment]  `json:"since"`
	Until  field[moment]  `json:"until"`
}

var deadFilterNames = []string{"status", "error", "prefix", "reason", "since", "until"}

// deadFilterOf reads the filter of a list. It returns nil if there is none.
func deadFilterOf(query url.Values, topic string) (*bulk.Filter, error) {
	values := map[string]jsontext.Value{}
	for _, name := range deadFilterNames {
		if !query.Has(name) {
			continue
		}
		read := optionValue
		if name == "error" || name == "prefix" || name == "reason" { // a text, also if it looks like a number
			read = func(_, text string) (jsontext.Value, error) { return jsontext.AppendQuote(nil, text) }
		}
		v, err := read(name, query.Get(name))
		if err != nil {
			return nil, badField(name, "not valid UTF-8")
		}
		values[name] = v
	}
	if len(values) == 0 {
		return nil, nil
	}
	var d deadFilter
	data, err := json.Marshal(values)
	if err != nil {
		return nil, err
	}
	if err := decode(data, &d); err != nil {
		return nil, err
	}
	return d.of(topic)
}

func (d *deadFilter) of(topic string) (*bulk.Filter, error) {
	f, err := d.filter("prefix", d.Prefix)
	f.Topic, f.State = topic, store.Dead
	return &f, err
}

// filter returns the filter, also for a prefix of ids, whose field is named. It rejects empty texts, which would select
// every job: they may come from an unset variable.
func (o *outcomeFilter) filter(name string, prefix field[string]) (f bulk.Filter, err error) {
	for _, text := range []struct {
		name string
		field[string]
	}{{"error", o.Error}, {name, prefix}, {"reason", o.Reason}} {
		if text.given && text.value == "" {
			return f, badField(text.name, "must not be empty; omit it to select any")
		}
	}
	f = bulk.Filter{
		Error: o.Error.value, Reason: o.Reason.value, Since: time.Time(o.Since.value), Until: time.Time(o.Until.value),
	}
	if o.Status.given {
		f.Status, err = o.Status.value.between("status", 100, 599)
	}
	if prefix.given {
		f.ID = "^" + prefix.value
	}
	return f, err
}
