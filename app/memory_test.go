package app

import (
	"slices"
	"strings"
	"testing"
)

func TestMemoryIsGivenBackOnceAtRestAndAgainOnlyWhenItIsWorthIt(t *testing.T) {
	const quiet, busy = 100 << 10, 50 << 20
	r := rest{}
	allocated, given := uint64(0), []int{}
	looks := slices.Concat(slices.Repeat([]uint64{busy}, 5), slices.Repeat([]uint64{quiet}, 100), []uint64{busy, quiet, quiet, busy}, slices.Repeat([]uint64{quiet}, 5))
	for n, more := range looks {
		allocated += more
		if r.look(allocated, restLook) {
			given = append(given, n)
		}
	}
	// After start-up, when quiet looks have added up, and after the last of what was busy.
	if want := []int{7, 38, 69, 100, 111}; !slices.Equal(given, want) {
		t.Errorf("memory was given back at the looks %v, want %v", given, want)
	}
}

func TestOnlyPagesOfTheProgramThatAreTheFilesAreLetGo(t *testing.T) {
	const smaps = `00400000-014ee000 r-xp 00000000 fe:00 10086896                           /opt/wakecall
Size:              17336 kB
Anonymous:             0 kB
VmFlags: rd ex mr mw me sd
014ee000-025de000 r--p 010ee000 fe:00 10086896                           /opt/wakecall
Rss:               13180 kB
Anonymous:             4 kB
VmFlags: rd mr mw me sd
025de000-026a3000 rw-p 021de000 fe:00 10086896                           /opt/wakecall
Anonymous:             0 kB
026a3000-046f9000 rw-p 00000000 00:00 0
Anonymous:             0 kB
046f9000-046fa000 r-xp 00000000 fe:00 10086897                           /usr/bin/wakecall
Anonymous:             0 kB
046fa000-046fb000 r--p 00000000 fe:00 10086896                           /opt/wakecall
Anonymous:             0 kB
7ffd0e5c1000-7ffd0e5c3000 r-xp 00000000 00:00 0                          [vdso]
Anonymous:             0 kB
`
	got := unchanged(strings.NewReader(smaps), "/opt/wakecall")
	if want := []mapping{{0x400000, 0x14ee000}, {0x46fa000, 0x46fb000}}; !slices.Equal(got, want) {
		t.Errorf("to let go: %x, want %x", got, want)
	}
}
