package setup

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"

	"github.com/wakecall/wakecall/conf"
	"github.com/wakecall/wakecall/internal/alert/health"
	"github.com/wakecall/wakecall/internal/log/printable"
	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/internal/store"
)

// checkShards checks the Redis of every shard in the registry or, before the first start, in redis.nodes.
func checkShards(ctx context.Context, cfg *conf.Config, shards []registry.Shard) []Finding {
	if len(shards) == 0 {
		return []Finding{failed("redis", noShard, addingShard)}
	}
	findings := make([][]Finding, len(shards))
	var wg sync.WaitGroup
	for i, s := range shards {
		wg.Go(func() { findings[i] = checkShard(ctx, cfg, s, shards) })
	}
	wg.Wait()
	var all []Finding
	for _, f := range findings {
		all = append(all, f...)
	}
	return append(all, unregistered(cfg, shards)...)
}

func checkShard(ctx context.Context, cfg *conf.Config, s registry.Shard, all []registry.Shard) []Finding {
	what := "redis " + s.Name
	if s.State == registry.ShardOffline {
		return []Finding{fine(what, "is offline in the registry; not checked")}
	}
	if s.URL == registry.ManagedShard {
		if _, err := os.Stat(cfg.RedisSocket()); err != nil {
			return []Finding{checkRedisBinary(ctx, what, cfg.Redis.Binary)}
		}
	}
	shard, closeQueue, err := OpenShard(ctx, cfg, s)
	if err != nil {
		return []Finding{failedErr(what, err, "Correct its URL")}
	}
	defer closeQueue()
	ctx, cancel := context.WithTimeout(ctx, 3*cfg.Redis.Timeout)
	defer cancel()
	if err := shard.CheckFormat(ctx); errors.Is(err, store.ErrFormat) {
		return []Finding{failedErr(what, err, "")}
	}
	h, problems := health.Try(ctx, shard)
	if !h.Up {
		return []Finding{unreachableShard(what, s, h)}
	}
	findings := []Finding{describeShard(what, h)}
	identity, _ := shard.Identity(ctx) // h contains any error
	if other := sameAs(identity, s, all); other != "" {
		findings = append(findings, failed(what, "is the same Redis as shard "+other, sameAdvice))
	}
	for _, p := range problems {
		if p.Kind == health.HasJobs { // as a shard in use does
			continue
		}
		findings = append(findings, Finding{what, verdicts[p.Severity], p.Detail.Error(), p.Advice.Error()})
	}
	return findings
}

var verdicts = map[health.Severity]Verdict{health.Critical: Failed, health.Warning: Warning, health.Hint: Hint}

const sameAdvice = "Not used, because draining one of the two would destroy the jobs of both. Delete this one " +
	"(wakecall shard delete --force NAME, which does not touch its jobs), or give the other its name " +
	"(wakecall shard rename)"

func unreachableShard(what string, s registry.Shard, h store.ShardHealth) Finding {
	text, advice := h.Err, "Is Redis running there, and is the address correct?"
	switch {
	case isPasswordError(text):
		advice = passwordAdvice
	case s.URL == registry.ManagedShard:
		advice = "The master runs it: if `wakecall up` is running, its log says why it does not answer"
	case strings.HasPrefix(s.URL, "rediss:"):
		advice = "Is Redis running there, with TLS on that port? Without TLS, it sends no reply"
	case strings.Contains(text, "timeout"), strings.Contains(text, "deadline exceeded"):
		advice = "Is there a firewall in between?"
	case strings.Contains(text, "bad lua script for redis cluster"): // of Alibaba Cloud's proxy
		advice = "Set the instance's parameter script_check_enable to 0. Every script stays within one slot"
	case h.Forbidden:
		advice = health.Judge(h)[0].Advice.Error()
	}
	return failed(what, strings.TrimRight(text, ". "), advice) // some errors of Redis end with a full stop
}

func describeShard(what string, h store.ShardHealth) Finding {
	memory := printable.Bytes(h.Memory)
	if h.MaxMemory > 0 {
		memory += " of " + printable.Bytes(h.MaxMemory)
	}
	return fine(what, "Redis %s responds in %s; %s, %s", h.Version, printable.Duration(h.Latency), memory,
		printable.Count(int(h.Jobs), "job"))
}

// checkRedisBinary checks the binary of the managed redis-server if the server does not run.
func checkRedisBinary(ctx context.Context, what, binary string) Finding {
	out, err := exec.CommandContext(ctx, binary, "--version").Output()
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, os.ErrNotExist) {
		return failed(what, "there is no "+binary+" here",
			"Install it (apt-get install redis-server), or set redis.nodes to a Redis elsewhere")
	}
	if err != nil {
		return failedErr(what, fmt.Errorf("%s --version: %w", binary, err),
			"Set redis.binary to a working redis-server")
	}
	_, rest, _ := strings.Cut(string(out), "v=")
	version, _, _ := strings.Cut(rest, " ")
	if version == "" {
		return failed(what, binary+" --version does not print a version of Redis", "Set redis.binary to a redis-server")
	}
	if health.TooOld(version) {
		return failed(what, fmt.Sprintf("%s is Redis %s, which is too old", binary, version),
			"Install Redis 7.0 or newer")
	}
	return fine(what, "not running; the master will start %s (Redis %s)", binary, version)
}

// unregistered warns about nodes in redis.nodes that are not shards, because after the first start only the registry's
// list counts.
func unregistered(cfg *conf.Config, shards []registry.Shard) []Finding {
	missing := 0
	for _, node := range cfg.Redis.Nodes {
		if !slices.ContainsFunc(shards, func(s registry.Shard) bool { return s.URL == node.Reveal() }) {
			missing++
		}
	}
	if missing == 0 {
		return nil
	}
	return []Finding{warn("redis.nodes", printable.Count(missing, "node")+" not registered as a shard, so not used",
		"redis.nodes is read by the first start only; add shards with `wakecall shard add`")}
}
