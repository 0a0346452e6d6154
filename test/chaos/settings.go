package chaos

import (
	"math/rand/v2"
	"os"
	"strconv"
	"time"
)

// What `make chaos` sets.
var (
	length = time.Duration(number("CHAOS_SECONDS", 60)) * time.Second // how long faults go on
	seed   = uint64(number("CHAOS_SEED", 1+rand.IntN(1_000_000)))     // the schedule to strike by
	// words, separated by commas, of which a fault's name must have one
	only = os.Getenv("CHAOS_ONLY")
	rate = number("CHAOS_RATE", 120) // requests a second of the load
	far  = number("CHAOS_JOBS", 0)   // jobs that wait all the time
	// where the record of a failed run goes; empty: the temporary directory
	keep = os.Getenv("CHAOS_RECORD")
)

func number(name string, otherwise int) int {
	n, err := strconv.Atoi(os.Getenv(name))
	if err != nil {
		return otherwise
	}
	return n
}
