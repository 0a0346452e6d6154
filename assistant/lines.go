package assistant

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/wakecall/wakecall/client"
	"github.com/wakecall/wakecall/internal/log/printable"
)

// lineLimit is the maximum length of a message to `wakecall mcp`, in bytes.
const lineLimit = 1 << 20

// lineTransport exchanges messages as lines. The SDK's own transport ends the session at the first line that is not a
// message; this one answers such a line with an error.
type lineTransport struct {
	in     *bufio.Reader
	lines  chan []byte // empty: a line that is too long
	closed chan struct{}
	close  func()

	calls  atomic.Int64  // that are not answered yet
	answer chan struct{} // receives after an answer

	mu  sync.Mutex // one message at a time
	out io.Writer
}

func newLineTransport(in io.Reader, out io.Writer) *lineTransport {
	t := &lineTransport{
		in: bufio.NewReaderSize(in, lineLimit), out: out, lines: make(chan []byte), closed: make(chan struct{}),
		answer: make(chan struct{}, 1),
	}
	t.close = sync.OnceFunc(func() { close(t.closed) })
	return t
}

// Connect implements mcp.Transport.
func (t *lineTransport) Connect(context.Context) (mcp.Connection, error) {
	go t.readLines() // ends with the input: reading from a pipe cannot be interrupted
	return t, nil
}

func (t *lineTransport) readLines() {
	defer close(t.lines)
	for {
		line, err := t.in.ReadSlice('\n')
		line = bytes.Clone(bytes.TrimSpace(line))
		tooLong := errors.Is(err, bufio.ErrBufferFull)
		for ; errors.Is(err, bufio.ErrBufferFull); _, err = t.in.ReadSlice('\n') {
			line = nil
		}
		if len(line) > 0 || tooLong {
			select {
			case t.lines <- line:
			case <-t.closed:
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// Read implements mcp.Connection.
func (t *lineTransport) Read(ctx context.Context) (jsonrpc.Message, error) {
	for {
		var line []byte
		var more bool
		select {
		case line, more = <-t.lines:
		case <-t.closed:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		if !more {
			t.finish(ctx)
			return nil, io.EOF
		}
		m, err := jsonrpc.DecodeMessage(line)
		if r, ok := m.(*jsonrpc.Request); ok && err == nil && r.IsCall() {
			t.calls.Add(1)
		}
		if err == nil {
			return m, nil
		}
		if err := t.refuse(len(line) == 0); err != nil {
			return nil, err
		}
	}
}

// finish waits until all calls are answered: the SDK cancels them at the end of the input.
func (t *lineTransport) finish(ctx context.Context) {
	limit := time.After(searchTime + client.DefaultTimeout)
	for t.calls.Load() > 0 {
		select {
		case <-t.answer:
		case <-t.closed:
			return
		case <-ctx.Done():
			return
		case <-limit:
			return
		}
	}
}

// refuse answers a line that is not a message, and has no id to answer to.
func (t *lineTransport) refuse(tooLong bool) error {
	why := "a line must be one JSON-RPC message"
	if tooLong {
		why = fmt.Sprintf("a message must be at most %d bytes", lineLimit)
	}
	return t.write(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":null,"error":{"code":%d,"message":%q}}`,
		jsonrpc.CodeParseError, why))
}

// Write implements mcp.Connection.
func (t *lineTransport) Write(_ context.Context, m jsonrpc.Message) error {
	b, err := jsonrpc.EncodeMessage(m)
	if err != nil {
		return err
	}
	err = t.write(b)
	if _, ok := m.(*jsonrpc.Response); ok {
		t.calls.Add(-1)
		select {
		case t.answer <- struct{}{}:
		default:
		}
	}
	return err
}

// write sends a message without characters that a model reads but people do not see, whatever field they are in.
func (t *lineTransport) write(message []byte) error {
	message = bytes.Map(func(r rune) rune {
		if printable.Ignorable(r) {
			return utf8.RuneError
		}
		return r
	}, message)
	t.mu.Lock()
	defer t.mu.Unlock()
	_, err := t.out.Write(append(message, '\n'))
	return err
}

// Close implements mcp.Connection.
func (t *lineTransport) Close() error {
	t.close()
	return nil
}

// SessionID implements mcp.Connection.
func (t *lineTransport) SessionID() string { return "" }
