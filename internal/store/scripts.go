package store

import (
	"embed"
	"io/fs"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"
)

// luaFiles has the scripts of this package, and in lua/shared what all scripts may use.
//
//go:embed lua
var luaFiles embed.FS

// The scripts. Each has its text in lua/, which describes its arguments and its result.
var (
	pushScript = declare(Row{
		Name: "push", Guard: GuardComplete, Deadline: true, Lost: LostDoubt, Replicas: true,
		Comparing: ComparingRefuses,
	})
	pushEarlyScript = declare(Row{
		Name: "push early", File: "push", Guard: GuardEarly, Deadline: true, Lost: LostDoubt, Replicas: true,
	})
	fireScript         = declare(Row{Name: "fire", Guard: GuardComplete, Deadline: true, Lost: LostDoubt})
	cursorScript       = declare(Row{Name: "cursor", Guard: GuardComplete, Deadline: true, Lost: LostDoubt})
	changeScript       = declare(Row{Name: "change", Deadline: true, Lost: LostDoubt, Replicas: true})
	deleteScript       = declare(Row{Name: "delete", Deadline: true, Lost: LostDoubt, Replicas: true})
	deadScript         = declare(Row{Name: "dead", Deadline: true, Lost: LostNever})    // it would take others
	reserveScript      = declare(Row{Name: "reserve", Deadline: true, Lost: LostNever}) // callers repeat it
	reserveFirstScript = declare(Row{Name: "reservefirst", Deadline: true, Lost: LostNever})
	takeScript         = declare(Row{Name: "take", Deadline: true, Lost: LostNever, Comparing: ComparingWaitsAlone})
	takeByIDScript     = declare(Row{Name: "takebyid", Deadline: true})
	settleScript       = declare(Row{Name: "settle", Lost: LostDoubt})
	settleByIDScript   = declare(Row{Name: "settle by id", File: "settle", Deadline: true, Lost: LostDoubt})
	wakeScript         = declare(Row{Name: "wake"})
	wakeAtScript       = declare(Row{Name: "wake at", File: "wake", SetsClock: true})
	configureScript    = declare(Row{Name: "configure", Guard: GuardNone, Deadline: true})

	// health
	identifyScript = declare(Row{Name: "identify", Guard: GuardNone})
	probeScript    = declare(Row{Name: "probe", File: "settings", Comparing: ComparingRefuses, RefuseFull: true})
	settingsScript = declare(Row{Name: "settings"})

	// queries and figures for people
	getScript        = declare(Row{Name: "get"})
	listScript       = declare(Row{Name: "list"})
	firstScript      = declare(Row{Name: "first"})
	statsScript      = declare(Row{Name: "stats"})
	countsScript     = declare(Row{Name: "counts"})
	countEarlyScript = declare(Row{Name: "count early", File: "counts", Guard: GuardNone})
)

// Row describes a script: everything but its text.
type Row struct {
	Name       string
	File       string // of its text, without .lua, when another script has the same; "" when it is named after it
	Guard      Guard
	Deadline   bool // it does nothing when it begins late, see deadline.go
	Lost       Lost
	Replicas   bool // its writes wait for a replica, if the topic's durability says so
	Comparing  Comparing
	RefuseFull bool // a full Redis refuses it, whatever its text says
	SetsClock  bool // it moves a standing clock, see standing.go
}

// Guard says when a script works.
type Guard uint8

// The guards.
const (
	GuardCompared Guard = iota // on a server that has been compared with the journals of the hosts
	GuardComplete              // the same, and no host is absent
	GuardEarly                 // also while it is being compared, see lua/shared/guard_early.lua
	GuardNone                  // always
)

var guardFiles = [...][]string{
	GuardCompared: {"server", "guard_compared"}, GuardComplete: {"server", "guard_compared", "guard_complete"},
	GuardEarly: {"server", "guard_early"}, GuardNone: nil,
}

// Lost says what follows when a call got no reply because its connection broke.
type Lost uint8

// What follows a lost reply.
const (
	LostRepeat Lost = iota // it is called once more: run twice, the script does and replies the same
	LostDoubt              // the same, but if it then finds nothing to do, the outcome is unknown
	LostNever              // an error
)

// Comparing says what a call does while its bucket is being compared with the journals.
type Comparing uint8

// What a call does meanwhile.
const (
	ComparingWaits      Comparing = iota // for at most Options.AwaitCompared
	ComparingWaitsAlone                  // when there is no other shard
	ComparingRefuses
)

// Script is a declared script. Each package that has scripts declares them in a table of variables.
type Script struct {
	Row
	files fs.FS
}

// Declare returns the script of a row whose text is in the folder lua of files. It may use the files in lua/shared of
// these, and of this package.
func Declare(files fs.FS, row Row) *Script {
	if row.File == "" {
		row.File = row.Name
	}
	return &Script{row, files}
}

func declare(row Row) *Script { return Declare(luaFiles, row) }

// needsCompared reports whether a script works only on servers that have been compared.
func (c *Script) needsCompared() bool { return c.Guard == GuardCompared || c.Guard == GuardComplete }

const with = "-- With: "

// text composes the text of a script: its first line, which must stay the first, the clock, base, the guards, and the
// files in shared that its second line names, up to the period. All but the head is one function: Lua searches the
// variables of a block anew for each function that is made in it and uses one, but has those around it at hand. What
// admit.lua does comes at the end, when all of a script's changes are made.
func (c *Script) text(cluster bool, clock string) string {
	first, rest, _ := strings.Cut(mustRead(c.files, "lua/"+c.File+".lua"), "\n")
	if c.RefuseFull {
		first = "#!lua"
	}
	head := []string{clock, "base"}
	if cluster {
		head = append(head, "guard_slot")
	}
	head = append(head, guardFiles[c.Guard]...)
	var parts []string
	if c.Deadline {
		parts = append(parts, "deadline")
	}
	if line, _, _ := strings.Cut(rest, "."); strings.HasPrefix(line, with) {
		parts = append(parts, strings.Split(strings.ReplaceAll(line[len(with):], "\n-- ", " "), ", ")...)
	}
	script := "(function()\n" + c.shared(parts) + rest + "\nend)()\n"
	if !slices.Contains(parts, "admit") {
		return first + "\n" + c.shared(head) + "return " + script
	}
	return first + "\n" + c.shared(head) + "local reply = " + script +
		"if run.keys then run.admit() end\nreturn reply\n"
}

// shared returns the text of shared files.
func (c *Script) shared(names []string) string {
	var b strings.Builder
	for _, name := range names {
		name = "lua/shared/" + name + ".lua"
		files := c.files
		if _, err := fs.Stat(files, name); err != nil {
			files = luaFiles
		}
		b.WriteString(mustRead(files, name))
	}
	return b.String()
}

func mustRead(files fs.FS, name string) string {
	b, err := fs.ReadFile(files, name)
	if err != nil {
		panic(err) // embedded: cannot be missing
	}
	return string(b)
}

// hash returns what EVALSHA names a script by. Only hashes are kept: the texts of all scripts would take 1.4 MiB in
// each process.
func (s *Shard) hash(script *Script) string {
	if h, ok := s.hashes.Load(script); ok {
		return h.(string)
	}
	h := redis.NewScript(s.compose(script)).Hash()
	s.hashes.Store(script, h)
	return h
}
