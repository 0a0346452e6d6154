package live

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"
)

// Data returns the data of a live part. arg is what follows the colon in "topic:shop.close".
type Data func(ctx context.Context, arg string) (any, error)

// source is a source of a live part.
type source struct {
	every   time.Duration
	partial string // template that renders the data
	data    Data
}

// Hub runs each source that an open page shows, once for all pages, and renders it once for each language.
type Hub struct {
	render func(language, partial string, data any) (string, error)
	log    *slog.Logger
	wg     sync.WaitGroup
	ctx    context.Context
	cancel context.CancelFunc

	mu      sync.Mutex
	sources map[string]source // by name
	feeds   map[string]*feed  // running ones, by name:arg
	streams map[string]int    // by user
}

// feed is a running source.
type feed struct {
	cancel  context.CancelFunc
	readers map[*reader]struct{}
	last    map[string]string // by language
	data    any               // of the last run, for the first reader in another language
	ran     bool
}

// reader is one open page. It keeps only the newest version of each event, so a slow browser misses some but delays
// nobody else.
type reader struct {
	language string
	mu       sync.Mutex
	pending  map[string]string
	tick     chan struct{}
}

type message struct{ name, text string }

// NewHub returns a hub; render renders a partial in a language.
func NewHub(render func(string, string, any) (string, error), log *slog.Logger) *Hub {
	ctx, cancel := context.WithCancel(context.Background())
	return &Hub{render: render, log: log, ctx: ctx, cancel: cancel, sources: map[string]source{},
		feeds: map[string]*feed{}, streams: map[string]int{}}
}

const (
	maxStreams = 500
	maxOfUser  = 50 // streams per user, so that one user cannot take them all
	maxEvents  = 8  // per page
)

// join adds a reader of the events for a user. It ignores events without a source. The caller must call leave when the
// reader is done.
func (h *Hub) join(user, language string, events []string) (r *reader, leave func(), err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := 0
	for _, n := range h.streams {
		all += n
	}
	if h.ctx.Err() != nil || all >= maxStreams || h.streams[user] >= maxOfUser {
		return nil, nil, fmt.Errorf("%d pages are open already, %d of them by this user", all, h.streams[user])
	}
	h.streams[user]++
	r = &reader{language: language, pending: map[string]string{}, tick: make(chan struct{}, 1)}
	for _, event := range events[:min(len(events), maxEvents)] {
		h.subscribe(r, event)
	}
	return r, func() { h.leave(user, r) }, nil
}

// subscribe sends the reader the last state, and starts the source for its first reader.
func (h *Hub) subscribe(r *reader, event string) {
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

func (h *Hub) leave(user string, r *reader) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.streams[user]--; h.streams[user] == 0 {
		delete(h.streams, user)
	}
	for event, f := range h.feeds {
		delete(f.readers, r)
		if len(f.readers) == 0 {
			f.cancel()
			delete(h.feeds, event)
		}
	}
}

// run polls the source. If the source fails, the pages keep its last state.
func (h *Hub) run(ctx context.Context, event, arg string, s source, f *feed) {
	t := time.NewTicker(s.every)
	defer t.Stop()
	for {
		data, err := s.data(ctx, arg)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			h.log.Debug("read a live part", "event", event, "error", err)
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

// publish renders the data in every language in use and notifies the pages whose text changes.
func (h *Hub) publish(event string, s source, f *feed, data any) {
	h.mu.Lock()
	f.data, f.ran = data, true
	h.mu.Unlock()
	for language := range h.languagesOf(f) {
		text, err := h.text(language, s, data)
		if err != nil {
			h.log.Error("render a live part", "event", event, "error", err)
			return
		}
		h.send(event, f, language, text)
	}
}

// send passes a new text to the current readers. One that joined while the text was rendered has the previous text.
func (h *Hub) send(event string, f *feed, language, text string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if f.last[language] == text {
		return
	}
	f.last[language] = text
	for r := range f.readers {
		if r.language == language {
			r.put(event, text)
		}
	}
}

func (h *Hub) languagesOf(f *feed) map[string]bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	languages := map[string]bool{}
	for r := range f.readers {
		languages[r.language] = true
	}
	return languages
}

func (h *Hub) text(language string, s source, data any) (string, error) {
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

// Close ends all sources and streams and waits for the sources.
func (h *Hub) Close() {
	h.mu.Lock() // nobody can join anymore
	h.cancel()
	h.mu.Unlock()
	h.wg.Wait()
}

// Spawn runs do in the background; Close waits for it. It returns false if the hub is closed.
func (h *Hub) Spawn(do func(context.Context)) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ctx.Err() != nil {
		return false
	}
	h.wg.Go(func() { do(h.ctx) })
	return true
}

// Register adds the source of a live part, which pages with data-live="NAME" or "NAME:ARG" show. It must be called
// before anything is served.
func (h *Hub) Register(name string, every time.Duration, partial string, data Data) {
	h.sources[name] = source{every, partial, data}
}

// Done returns a channel that is closed with the hub.
func (h *Hub) Done() <-chan struct{} { return h.ctx.Done() }
