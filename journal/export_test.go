package journal

import "os"

// OnSync replaces how files are synced.
func (j *Journal) OnSync(sync func(*os.File) error) {
	for _, s := range j.streams() {
		s.sync = sync
	}
}
