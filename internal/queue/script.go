package queue

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

//go:embed lua
var luaFiles embed.FS

// script composes its text only when a server needs it: the texts of all scripts would take 1.4 MiB in each process.
type script struct {
	text func() string
	hash func() string
}

func newScript(text func() string) *script {
	return &script{text, sync.OnceValue(func() string { return redis.NewScript(text()).Hash() })}
}

// evalSha calls a script that the server may have cached, eval one that it has not.
func (c *script) evalSha(ctx context.Context, r redis.Scripter, keys []string, args ...any) *redis.Cmd {
	return r.EvalSha(ctx, c.hash(), keys, args...)
}

func (c *script) eval(ctx context.Context, r redis.Scripter, keys []string, args ...any) *redis.Cmd {
	return r.Eval(ctx, c.text(), keys, args...)
}

// loadScripts returns the scripts of a shard by the names of their files.
func loadScripts(cluster bool) map[string]*script {
	files, err := luaFiles.ReadDir("lua")
	if err != nil {
		panic(err) // embedded: cannot be missing
	}
	scripts := make(map[string]*script, len(files))
	for _, file := range files {
		if file.IsDir() {
			continue
		}
		of := strings.TrimSuffix(file.Name(), ".lua")
		for _, name := range append(variants[of], of) {
			scripts[name] = newScript(func() string { return compose(of, name, cluster) })
		}
	}
	return scripts
}

// compose returns the text of a script, or of a variant of one: its first line, which must stay the first, the guards,
// and the files of lua/shared that its second line names. All but the guards and base is one function: Lua searches
// the variables of a block anew for each function that is made in it and uses one, but has those around it at hand.
func compose(of, name string, cluster bool) string {
	first, rest, _ := strings.Cut(mustRead(of+".lua"), "\n")
	if name == handReplay {
		first = "#!lua"
	}
	var parts []string
	if line, _, _ := strings.Cut(rest, "\n"); strings.HasPrefix(line, with) {
		parts = strings.Split(strings.TrimSuffix(line[len(with):], "."), ", ")
	}
	if !slices.Contains(timely, name) {
		parts = slices.DeleteFunc(parts, func(part string) bool { return part == "deadline" })
	}
	guards := readShared(append(guardsOf(name, cluster), "base"))
	return first + "\n" + guards + "return (function()\n" + readShared(parts) + rest + "\nend)()\n"
}

const with = "-- With: "

const (
	settleByID = "settle by id" // settle for jobs named by their ids: it does nothing when it begins late
	clearTopic = "clear"        // drop before the server has been compared, see Replay
	countEarly = "count early"  // counts before the server has been compared
	pushEarly  = "push early"   // push before that, or while hosts are absent, see storeEarly
	handReplay = "hand replay"  // replay by hand: a full Redis refuses it
)

// variants maps scripts to their other names, which have other guards.
var variants = map[string][]string{
	"settle": {settleByID}, "drop": {clearTopic}, "counts": {countEarly}, "push": {pushEarly},
	"replay": {handReplay},
}

// unguarded lists the scripts that work before the server has been compared.
var unguarded = []string{
	"attend", "compared", "replay", handReplay, "configure", "identify", clearTopic, countEarly, pushEarly,
}

// guardsOf returns the text of the checks that a script begins with.
func guardsOf(name string, cluster bool) []string {
	var guards []string
	if cluster {
		guards = append(guards, "slotguard")
	}
	switch {
	case name == pushEarly:
		return append(guards, "earlyguard")
	case slices.Contains(unguarded, name):
		return append(guards, "noguard")
	case name == "push":
		return append(guards, "serverguard", "allguard")
	}
	return append(guards, "serverguard")
}

func readShared(names []string) string {
	var b strings.Builder
	for _, name := range names {
		b.WriteString(mustRead("shared/" + name + ".lua"))
	}
	return b.String()
}

func mustRead(name string) string {
	b, err := luaFiles.ReadFile("lua/" + name)
	if err != nil {
		panic(err) // embedded: cannot be missing
	}
	return string(b)
}

var errReply = errors.New("the script's answer has an unexpected form")

// text, integer and values return a value of an answer, or the zero value if it is of another type.
func text(v any) string {
	s, _ := v.(string)
	return s
}

func integer(v any) int64 {
	n, _ := v.(int64)
	return n
}

func values(v any) []any {
	list, _ := v.([]any)
	return list
}

func millis(v any) time.Time { return time.UnixMilli(integer(v)).UTC() }

func micros(v any) time.Time { return time.UnixMicro(integer(v)).UTC() }

// ints converts a list of numbers.
func ints(reply []any) []int64 {
	list := make([]int64, len(reply))
	for i, v := range reply {
		list[i] = integer(v)
	}
	return list
}

func anys(texts []string) []any {
	list := make([]any, len(texts))
	for i, t := range texts {
		list[i] = t
	}
	return list
}

func number(s string) int64 {
	n, _ := strconv.ParseInt(s, 10, 64)
	return n
}

// outcome is the answer of a script that may have been called twice.
type outcome struct {
	value    any
	repeated bool  // the first answer was lost; that call may have been carried out
	unsafe   error // why no replica has confirmed it, when the durability requires one
}

// do calls a script, a second time when the connection broke, and waits until its writes are as safe as d requires.
func (s *Shard) do(ctx context.Context, bucket int, d Durability, script string, args ...any) (o outcome, err error) {
	call := func() (v any, unsafe, err error) {
		if d == Replica {
			v, unsafe, err = s.runReplicated(ctx, bucket, script, args...)
			if isComparing(err) && s.awaitBucket(ctx, bucket, script) {
				return s.runReplicated(ctx, bucket, script, args...)
			}
			return v, unsafe, err
		}
		v, err = s.run(ctx, bucket, script, args...)
		return v, nil, err
	}
	o.value, o.unsafe, err = call()
	if err != nil && errors.Is(err, errConnection) {
		o.repeated = true
		o.value, o.unsafe, err = call()
		if un, ok := errors.AsType[*UnavailableError](err); ok {
			un.unanswered = true
		}
	}
	return o, err
}

// again is run for scripts that may run twice: it calls a second time when the connection broke.
func (s *Shard) again(ctx context.Context, bucket int, script string, args ...any) (any, error) {
	o, err := s.do(ctx, bucket, Memory, script, args...)
	return o.value, err
}

// list is again for scripts that answer a list of n values, or of any length when n is negative.
func (s *Shard) list(ctx context.Context, bucket, n int, script string, args ...any) ([]any, error) {
	v, err := s.again(ctx, bucket, script, args...)
	if err != nil {
		return nil, err
	}
	reply, ok := v.([]any)
	if !ok || n >= 0 && len(reply) != n {
		return nil, fmt.Errorf("%s on shard %s: %w", script, s.name, errReply)
	}
	return reply, nil
}

// run calls a script, and once more if its bucket was being compared with the journals: then it has done nothing. An
// error that is not the context's or the script's own is an *UnavailableError.
func (s *Shard) run(ctx context.Context, bucket int, script string, args ...any) (any, error) {
	v, err := s.runOnce(ctx, bucket, script, args...)
	if isComparing(err) && s.awaitBucket(ctx, bucket, script) {
		return s.runOnce(ctx, bucket, script, args...)
	}
	return v, err
}

func (s *Shard) runOnce(ctx context.Context, bucket int, script string, args ...any) (any, error) {
	n := s.nodes[bucket]
	if err := s.refuses(n, script); err != nil {
		return nil, err
	}
	began := time.Now()
	err := s.check(ctx, bucket)
	if err != nil {
		return nil, s.failed(ctx, bucket, began, err)
	}
	var v any
	err = s.inTime(ctx, bucket, script, args, func(args []any) (err error) {
		v, err = s.eval(ctx, bucket, script, args...)
		return err
	})
	if err == nil || errors.Is(err, redis.Nil) {
		if !n.proven.Load() && !slices.Contains(unguarded, script) {
			n.proven.Store(true)
		}
		return v, nil
	}
	return nil, s.failed(ctx, bucket, began, err)
}

// refuses returns why a bucket that is down cannot run a script.
func (s *Shard) refuses(n *bucketState, script string) error {
	if n.down.Load() && (n.reason() != comparing || !slices.Contains(unguarded, script)) {
		return s.unavailable(n.reason(), n.why.Load().(error))
	}
	return nil
}

func (s *Shard) eval(ctx context.Context, bucket int, script string, args ...any) (any, error) {
	keys, code := []string{prefix(bucket)}, s.scripts[script]
	v, err := code.evalSha(ctx, s.client, keys, args...).Result()
	if redis.HasErrorPrefix(err, "NOSCRIPT") {
		v, err = code.eval(ctx, s.client, keys, args...).Result()
	}
	if !redis.HasErrorPrefix(err, "NOBUCKET") {
		return v, err
	}
	if err := s.makeSlotGuard(ctx, bucket); err != nil {
		return nil, err
	}
	return code.evalSha(ctx, s.client, keys, args...).Result()
}

// errDoubtful is the error of a repeated call that finds nothing to do: the first call, whose answer was lost, may have
// done it.
var errDoubtful = errors.New("the first answer was lost, and there is nothing left to do: it may have been done")

// errConnection marks a command whose connection broke while it was under way. A new connection may work at once.
var errConnection = errors.New("the connection broke")
