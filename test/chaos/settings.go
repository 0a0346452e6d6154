package chaos

import (
	"math/rand/v2"
	"os"
	"strconv"
	"time"
)

// What `make chaos` sets.
var (
	length = time.Duration(number("CHAOS_SECONDS", 60)) * time.Second // duration of the faults
	seed   = uint64(number("CHAOS_SEED", 1+rand.IntN(1_000_000)))     // seed of the schedule
	// comma-separated words, one of which must be in a fault's name
	only = os.Getenv("CHAOS_ONLY")
	rate = number("CHAOS_RATE", 120) // requests a second of the load
	far  = number("CHAOS_JOBS", 0)   // jobs that are waiting all the time
	// directory for the record of a failed run; empty: the temporary directory
	keep = os.Getenv("CHAOS_RECORD")
)

func number(name string, otherwise int) int {
	n, err := strconv.Atoi(os.Getenv(name))
	if err != nil {
		return otherwise
	}
	return n
}
