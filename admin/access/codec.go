package access

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/wakecall/wakecall/admin/page"
)

// sessionCodec encodes sessions as JSON. They hold texts, whole numbers and flashes.
type sessionCodec struct{}

type encodedSession struct {
	Deadline time.Time         `json:"deadline"`
	Texts    map[string]string `json:"texts,omitempty"`
	Numbers  map[string]int64  `json:"numbers,omitempty"`
	Flashes  []page.Flash      `json:"flashes,omitempty"`
}

// Encode implements scs.Codec.
func (sessionCodec) Encode(deadline time.Time, values map[string]any) ([]byte, error) {
	e := encodedSession{Deadline: deadline.UTC(), Texts: map[string]string{}, Numbers: map[string]int64{}}
	for name, value := range values {
		switch x := value.(type) {
		case string:
			e.Texts[name] = x
		case int64:
			e.Numbers[name] = x
		case []page.Flash:
			e.Flashes = x
		default:
			return nil, fmt.Errorf("session value %s has unsupported type %T", name, value)
		}
	}
	return json.Marshal(e)
}

// Decode implements scs.Codec.
func (sessionCodec) Decode(data []byte) (time.Time, map[string]any, error) {
	var e encodedSession
	if err := json.Unmarshal(data, &e); err != nil {
		return time.Time{}, nil, fmt.Errorf("read a session: %w", err)
	}
	values := map[string]any{}
	for name, text := range e.Texts {
		values[name] = text
	}
	for name, n := range e.Numbers {
		values[name] = n
	}
	if len(e.Flashes) > 0 {
		values[page.KeyFlashes] = e.Flashes
	}
	return e.Deadline, values, nil
}
