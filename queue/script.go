package queue

import (
	"embed"
	"strconv"
	"strings"

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
