package admin

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"
)

// source is something that pages show live.
type source struct {
	every   time.Duration
	partial string                                             // that renders the data; empty: data is a string, sent as it is
	data    func(ctx context.Context, arg string) (any, error) // arg is what follows the colon of "topic:shop.close"
}

// hub runs every source that somebody looks at, once for all of them, and renders it once for each language.
type hub struct {
	render func(language, partial string, data any) (string, error)
	log    *slog.Logger
	wg     sync.WaitGroup
	ctx    context.Context
	cancel context.CancelFunc

	mu      sync.Mutex
	sources map[string]source // by name
	feeds   map[string]*feed  // running ones, by name:arg
	streams int
}

// feed is a running source.
type feed struct {
	cancel  context.CancelFunc
	readers map[*reader]struct{}
	last    map[string]string // by language
	data    any               // of the last run, for the first reader of another language
	ran     bool
}

// reader is one open page. Of each event it keeps the newest only: a slow browser misses some, and holds nobody up.
type reader struct {
	language string
	mu       sync.Mutex
	pending  map[string]string
	tick     chan struct{}
}

type message struct{ name, text string }

func newHub(render func(string, string, any) (string, error), log *slog.Logger) *hub {
	ctx, cancel := context.WithCancel(context.Background())
	return &hub{render: render, log: log, ctx: ctx, cancel: cancel, sources: map[string]source{}, feeds: map[string]*feed{}}
}

// live registers a source: pages with data-live="NAME" or "NAME:ARG" show it.
func (a *Admin) live(name string, every time.Duration, partial string, data func(ctx context.Context, arg string) (any, error)) {
	a.hub.sources[name] = source{every, partial, data}
}

const (
	maxStreams = 500
	maxEvents  = 8 // of one page
)

// join makes a reader of the events, names of sources that do not exist left out. leave must be called in the end.
func (h *hub) join(language string, events []string) (r *reader, leave func(), err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ctx.Err() != nil || h.streams >= maxStreams {
		return nil, nil, fmt.Errorf("%d pages are open already", h.streams)
	}
	h.streams++
	r = &reader{language: language, pending: map[string]string{}, tick: make(chan struct{}, 1)}
	for _, event := range events[:min(len(events), maxEvents)] {
		h.subscribe(r, event)
	}
	return r, func() { h.leave(r) }, nil
}

// subscribe gives the reader what is known at once, and starts the source when it is the first.
func (h *hub) subscribe(r *reader, event string) {
	name, arg, _ := strings.Cut(event, ":")
	s, ok := h.sources[name]
	if !ok {
		return
	}
	f := h.feeds[event]
	if f == nil {
		ctx, cancel := context.WithCancel(h.ctx)
		f = &feed{cancel: cancel, readers: map[*reader]struct{}{}, last: map[string]string{}}
		h.feeds[event] = f
		h.wg.Go(func() { h.run(ctx, event, arg, s, f) })
	}
	f.readers[r] = struct{}{}
	if text, ok := f.last[r.language]; ok {
		r.put(event, text)
		return
	}
	if !f.ran {
		return
	}
	if text, err := h.text(r.language, s, f.data); err == nil {
		f.last[r.language] = text
		r.put(event, text)
	}
}

func (h *hub) leave(r *reader) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.streams--
	for event, f := range h.feeds {
		delete(f.readers, r)
		if len(f.readers) == 0 {
			f.cancel()
			delete(h.feeds, event)
		}
	}
}

// run asks the source again and again. A source that fails keeps its last state on the pages.
func (h *hub) run(ctx context.Context, event, arg string, s source, f *feed) {
	t := time.NewTicker(s.every)
	defer t.Stop()
	for {
		data, err := s.data(ctx, arg)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			h.log.Debug("a live part has nothing to show", "event", event, "error", err)
		default:
			h.publish(event, s, f, data)
		}
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
	}
}

// publish renders the data in every language that somebody reads and tells those whose page it changes.
func (h *hub) publish(event string, s source, f *feed, data any) {
	h.mu.Lock()
	f.data, f.ran = data, true
	h.mu.Unlock()
	for language, readers := range h.readersOf(f) {
		text, err := h.text(language, s, data)
		if err != nil {
			h.log.Error("a live part cannot be rendered", "event", event, "error", err)
			return
		}
		h.mu.Lock()
		same := f.last[language] == text
		f.last[language] = text
		h.mu.Unlock()
		if same {
			continue
		}
		for _, r := range readers {
			r.put(event, text)
		}
	}
}

func (h *hub) readersOf(f *feed) map[string][]*reader {
	h.mu.Lock()
	defer h.mu.Unlock()
	by := map[string][]*reader{}
	for r := range f.readers {
		by[r.language] = append(by[r.language], r)
	}
	return by
}

func (h *hub) text(language string, s source, data any) (string, error) {
	if s.partial == "" {
		return fmt.Sprint(data), nil
	}
	return h.render(language, s.partial, data)
}

func (r *reader) put(event, text string) {
	r.mu.Lock()
	r.pending[event] = text
	r.mu.Unlock()
	select {
	case r.tick <- struct{}{}:
	default:
	}
}

func (r *reader) take() []message {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := make([]message, 0, len(r.pending))
	for name, text := range r.pending {
		list = append(list, message{name, text})
	}
	clear(r.pending)
	return list
}

// close ends all sources and streams and waits for the sources.
func (h *hub) close() {
	h.mu.Lock() // nobody joins any more
	h.cancel()
	h.mu.Unlock()
	h.wg.Wait()
}

// spawn runs something beside the requests, which close waits for; false: the hub is closed.
func (h *hub) spawn(do func(context.Context)) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ctx.Err() != nil {
		return false
	}
	h.wg.Go(func() { do(h.ctx) })
	return true
}
