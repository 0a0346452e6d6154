package queue

import (
	"context"
	"embed"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

//go:embed lua/*.lua
var luaFiles embed.FS

// scripts are the scripts of one shard, with what they share put behind their first line.
type scripts struct {
	push, get, change, remove, advance, reserve, settle, extend, dead, list, stats, drop, configure, totals, active, find, forecast, limits, note, noted, seen, restore, leave, deferred, mover, probe *redis.Script
}

func loadScripts(locators uint32, long int, cluster bool) *scripts {
	common := strings.NewReplacer("@LOCATORS@", strconv.FormatUint(uint64(locators), 10), "@PARTS@", strconv.Itoa(hashParts), "@LONG@", strconv.Itoa(long)).Replace(mustRead("common"))
	if cluster {
		common = mustRead("slotguard") + common
	}
	load := func(name string) *redis.Script {
		first, rest, _ := strings.Cut(mustRead(name), "\n") // #!lua and its flags must stay the first line
		return redis.NewScript(first + "\n" + common + rest + "end)()\n")
	}
	return &scripts{
		push: load("push"), get: load("get"), change: load("change"), remove: load("delete"), advance: load("advance"),
		reserve: load("reserve"), settle: load("settle"), extend: load("extend"), dead: load("dead"), list: load("list"),
		stats: load("stats"), drop: load("drop"), configure: load("configure"),
		totals: load("totals"), active: load("active"), find: load("find"), forecast: load("forecast"), limits: load("limits"),
		note: load("note"), noted: load("noted"), seen: load("seen"), restore: load("restore"), leave: load("leave"),
		deferred: load("defer"), mover: load("mover"), probe: load("probe"),
	}
}

func mustRead(name string) string {
	b, err := luaFiles.ReadFile("lua/" + name + ".lua")
	if err != nil {
		panic(err) // embedded: cannot be missing
	}
	return string(b)
}

var errReply = errors.New("the script's answer has not the expected form")

func millis(v any) time.Time {
	n, _ := v.(int64)
	return time.UnixMilli(n).UTC()
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

// outcome is what a script answered that may have been called twice.
type outcome struct {
	value    any
	repeated bool  // the answer to the first call was lost; it may have been carried out
	unsafe   error // why no replica has confirmed it, though the durability asks for that
}

// do calls a script, once more when the connection broke, and waits until its writes are where d says.
func (s *Shard) do(ctx context.Context, bucket int, d Durability, script *redis.Script, args ...any) (o outcome, err error) {
	call := func() (v any, unsafe, err error) {
		if d == Replica {
			return s.runReplicated(ctx, bucket, script, args...)
		}
		v, err = s.run(ctx, bucket, script, args...)
		return v, nil, err
	}
	o.value, o.unsafe, err = call()
	if err != nil && errors.Is(err, errConnection) {
		o.repeated = true
		o.value, o.unsafe, err = call()
	}
	return o, err
}

// again is run for scripts that may run twice: once more when the connection broke.
func (s *Shard) again(ctx context.Context, bucket int, script *redis.Script, args ...any) (any, error) {
	o, err := s.do(ctx, bucket, Memory, script, args...)
	return o.value, err
}

// list is again for scripts that answer with a list.
func (s *Shard) list(ctx context.Context, bucket int, script *redis.Script, args ...any) ([]any, error) {
	v, err := s.again(ctx, bucket, script, args...)
	if err != nil {
		return nil, err
	}
	reply, ok := v.([]any)
	if !ok {
		return nil, errReply
	}
	return reply, nil
}

// run calls a script. An error other than one of the context means that the shard is not available: it is an *UnavailableError.
func (s *Shard) run(ctx context.Context, bucket int, script *redis.Script, args ...any) (any, error) {
	n := s.nodes[bucket]
	if n.down.Load() {
		return nil, s.unavailable("down", n.why.Load().(error))
	}
	v, err := s.eval(ctx, bucket, script, args...)
	if err == nil || errors.Is(err, redis.Nil) {
		return v, nil
	}
	return nil, s.failed(ctx, bucket, err)
}

func (s *Shard) eval(ctx context.Context, bucket int, script *redis.Script, args ...any) (any, error) {
	keys := []string{prefix(bucket)}
	v, err := script.EvalSha(ctx, s.client, keys, args...).Result()
	if redis.HasErrorPrefix(err, "NOSCRIPT") {
		v, err = script.Eval(ctx, s.client, keys, args...).Result()
	}
	if !redis.HasErrorPrefix(err, "NOBUCKET") {
		return v, err
	}
	if err := s.makeSlotGuard(ctx, bucket); err != nil {
		return nil, err
	}
	return script.EvalSha(ctx, s.client, keys, args...).Result()
}

// errDoubtful is when a second try finds nothing to do: the first one, whose answer was lost, may have done it.
var errDoubtful = errors.New("the answer to the first try was lost, and there is nothing left to do: it may have been done")

// errConnection marks a command whose connection died under it: a fresh one may serve at once.
var errConnection = errors.New("the connection broke")
