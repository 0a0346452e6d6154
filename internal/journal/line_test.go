package journal

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

var hostile = []string{
	"", "plain", "a\r\nb", "\x00", "\x1f\x7f", "\"\\", "\u0085\u2028\u2029", "\x1b[2J\u009b2J", "é€😀", "\xff\xfe",
	"a\xe2\x80", "\xc2", lineStart, `"}` + "\n" + lineStart,
	"\xed\xa0\x80", "<script>&", "\ufffd", "\ufeff",
}

func hostileText() *rapid.Generator[string] {
	return rapid.OneOf(
		rapid.SampledFrom(hostile),
		rapid.String(),
		rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) }),
		rapid.Map(rapid.SliceOfN(rapid.SampledFrom(hostile), 0, 5),
			func(s []string) string { return string(bytes.Join(toBytes(s), nil)) }),
	)
}

func toBytes(s []string) (b [][]byte) {
	for _, t := range s {
		b = append(b, []byte(t))
	}
	return b
}

func instants() *rapid.Generator[time.Time] {
	return rapid.Map(rapid.Int64Range(1, 200e12), func(ms int64) time.Time { return time.UnixMilli(ms).UTC() })
}

func durations(unit time.Duration) *rapid.Generator[time.Duration] {
	return rapid.Map(rapid.Int64Range(0, int64(30*day/unit)),
		func(n int64) time.Duration { return time.Duration(n) * unit })
}

func written(line []byte, err error) []byte {
	if err != nil {
		panic(err)
	}
	return line
}

// valid replaces bytes that are not UTF-8, as lines have it, except in bodies.
func valid(texts ...*string) {
	for _, s := range texts {
		*s = string([]rune(*s))
	}
}

// checkLine requires a single line of valid JSON, in which the line's prefix occurs once and which is invalid when
// truncated.
func checkLine(t interface{ Fatalf(string, ...any) }, line []byte) {
	for _, separator := range []string{"\n", "\r", "\x00", "\u0085", "\u2028", "\u2029", "\x1b", "\u009b", "\x7f"} {
		n := bytes.Count(line, []byte(separator))
		if separator == "\n" && n == 1 && line[len(line)-1] == '\n' {
			continue
		}
		if n != 0 {
			t.Fatalf("%q contains a line separator or a control character", line)
		}
	}
	if !json.Valid(line) || !bytes.HasPrefix(line, []byte(lineStart)) || bytes.Count(line, []byte(lineStart)) != 1 {
		t.Fatalf("%q is not one line of JSON", line)
	}
	if json.Valid(line[:len(line)-2]) {
		t.Fatalf("%q is valid without its end", line)
	}
}

func TestRequestLineRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := RequestLine{
			TS: instants().Draw(t, "ts"), Op: Op(rapid.SampledFrom([]string{"push", "change", "drop"}).Draw(t, "op")),
			Topic: hostileText().Draw(t, "topic"), ID: hostileText().Draw(t, "id"), Shard: hostileText().Draw(t, "shard"),
			DueAt: instants().Draw(t, "due"), CreatedAt: instants().Draw(t, "created"), Priority: "high",
			TTR: durations(time.Microsecond).Draw(t, "ttr"), MaxAttempts: rapid.Int().Draw(t, "max"),
			ContentType: hostileText().Draw(t, "type"),
		}
		if rapid.Bool().Draw(t, "has extras") {
			name, value := strings.ToValidUTF8(hostileText().Draw(t, "header"), ""),
				strings.ToValidUTF8(hostileText().Draw(t, "value"), "")
			want.TTL = durations(time.Microsecond).Draw(t, "ttl")
			want.ExpiresAt, want.Headers = instants().Draw(t, "expires"), map[string]string{name: value, "ts": value}
			want.Order = new(rapid.Uint32().Draw(t, "order"))
			want.Retry = []time.Duration{durations(time.Microsecond).Draw(t, "wait")}
			want.Schedule, want.For = hostileText().Draw(t, "schedule"), instants().Draw(t, "for")
			want.Definition, want.LeftOut = rapid.Int64().Draw(t, "definition"), map[string]int{"late": 1}
			last, err := json.Marshal([]string{value})
			if err != nil {
				t.Fatal(err)
			}
			want.Last = last
		}
		if rapid.Bool().Draw(t, "has body") {
			want.Body = []byte(hostileText().Draw(t, "body"))
		}
		line := written(want.append(nil, noon))
		checkLine(t, line)
		got, err := readRequest(line)
		if err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		valid(&want.Topic, &want.ID, &want.Shard, &want.ContentType, &want.Schedule)
		if want.Last != nil && !jsonEqual(got.Last, want.Last) {
			t.Fatalf("last %q, want %q", got.Last, want.Last)
		}
		got.Last = want.Last
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("%q is read as\n%#v\nwant\n%#v", line, got, want)
		}
	})
}

func jsonEqual(a, b []byte) bool {
	var x, y any
	return json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && reflect.DeepEqual(x, y)
}

// TestWhatIsOfNoScheduleHasNoFieldsForIt: other lines are as short as before.
func TestWhatIsOfNoScheduleHasNoFieldsForIt(t *testing.T) {
	request := written((&RequestLine{Op: OpPush, ID: "x"}).append(nil, noon))
	attempt := written((&AttemptLine{ID: "x"}).append(nil, noon, "p"))
	for _, field := range []string{"schedule", "for", "definition", "last", "left_out"} {
		if line := string(request) + string(attempt); strings.Contains(line, `"`+field+`"`) {
			t.Errorf("%s in %s", field, line)
		}
	}
}

func TestHeadersThatAreNotUTF8AreWritten(t *testing.T) {
	l := RequestLine{Op: OpPush, ID: "x", Headers: map[string]string{"ts\xff": "\xfe"}}
	got, err := readRequest(written(l.append(nil, noon)))
	if err != nil || got.Headers["ts\ufffd"] != "\ufffd" {
		t.Fatalf("%+v, %v", got, err)
	}
}

func TestAttemptLineRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := AttemptLine{
			TS: instants().Draw(t, "ts"), Topic: hostileText().Draw(t, "topic"), ID: hostileText().Draw(t, "id"),
			N:         rapid.Int().Draw(t, "n"),
			StartedAt: instants().Draw(t, "started"), Took: durations(time.Microsecond).Draw(t, "took"),
			Status:  rapid.Int().Draw(t, "status"),
			Outcome: Expired, Reason: hostileText().Draw(t, "reason"), Error: hostileText().Draw(t, "error"),
			Shard: hostileText().Draw(t, "shard"), Process: "p" + hostileText().Draw(t, "process"),
			Result: hostileText().Draw(t, "result"), Schedule: hostileText().Draw(t, "schedule"),
			For: instants().Draw(t, "for"),
		}
		line := written(want.append(nil, noon, "other"))
		checkLine(t, line)
		got, err := readAttempt(line)
		valid(&want.Topic, &want.ID, &want.Reason, &want.Error, &want.Shard, &want.Process, &want.Result,
			&want.Schedule)
		if err != nil || got != want {
			t.Fatalf("%q is read as\n%#v (%v)\nwant\n%#v", line, got, err, want)
		}
	})
}

func FuzzErrorLine(f *testing.F) {
	for _, s := range hostile {
		f.Add(s, s)
	}
	f.Fuzz(func(t *testing.T, where, text string) {
		want := ErrorLine{TS: noon, Process: "p", Where: where, Error: text, Context: where + text}
		line := written(want.append(nil, noon, ""))
		checkLine(t, line)
		got, err := readError(line)
		valid(&want.Where, &want.Error, &want.Context)
		if err != nil || got != want {
			t.Fatalf("%q is read as %#v (%v)", line, got, err)
		}
	})
}

// Whatever a file contains, reading it ends, and finds a complete line after any garbage.
func FuzzReadLine(f *testing.F) {
	for _, s := range hostile {
		f.Add([]byte(s))
	}
	good := bytes.TrimSpace(RequestLine{ID: "x"}.appendForTest())
	f.Add(good)
	f.Add(good[:20])
	f.Fuzz(func(t *testing.T, garbage []byte) {
		garbage = bytes.ReplaceAll(garbage, []byte("\n"), nil)
		var last string
		readLine(&TornError{}, append(garbage, good...), func(line []byte, _ *TornError, err error) bool {
			if err == nil {
				last = string(line)
			}
			return true
		})
		if last != string(good) {
			t.Fatalf("after %q: %q", garbage, last)
		}
	})
}
