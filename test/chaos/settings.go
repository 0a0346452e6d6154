package chaos

import (
	"cmp"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"time"
)

// What `make chaos` sets.
var (
	length = time.Duration(number("CHAOS_SECONDS", 60)) * time.Second // how long faults are injected
	seed   = uint64(number("CHAOS_SEED", 1+rand.IntN(1_000_000)))     // of the schedule
	only   = os.Getenv("CHAOS_ONLY")                                  // words in the names of faults, see chosen
	rate   = number("CHAOS_RATE", 120)                                // requests a second of the load
	// of Redis: shards (two), cluster (three masters) or standalone
	deployment = cmp.Or(os.Getenv("CHAOS_DEPLOYMENT"), "shards")
	// of the registry: mariadb or postgres. By default, the seed decides, so that both have their turns.
	databaseKind = cmp.Or(os.Getenv("CHAOS_DATABASE"), []string{"mariadb", "postgres"}[seed%2])
	far          = number("CHAOS_JOBS", 0) // jobs that are waiting all the time
	// further operations of the load: replace, redrive, delete (several dead jobs at once), drop (a topic with its
	// jobs), group (several jobs that are cancelled together), schedule (a job each second)
	mixed = strings.Split(cmp.Or(os.Getenv("CHAOS_MIXED"), "replace,redrive,delete,drop,group,schedule"), ",")
	keep  = cmp.Or(os.Getenv("CHAOS_RECORD"), os.TempDir()) // directory for the record of a failed run
)

func number(name string, otherwise int) int {
	n, err := strconv.Atoi(os.Getenv(name))
	if err != nil {
		return otherwise
	}
	return n
}
