package journal

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/wakecall/wakecall/internal/disk"
)

const probeEvery = time.Second

// logHealth logs the first failed write of a stream, and the first one that succeeds again.
func (j *Journal) logHealth(s *stream, err error) {
	switch {
	case err != nil && !errors.Is(err, os.ErrClosed):
		if s.logged.CompareAndSwap(false, true) {
			j.opts.Logger.Error("the journal cannot be written; every write tries again",
				"dir", j.opts.Dir, "stream", s.name, "error", err)
		}
	case err == nil && s.logged.Load() && s.err() == nil:
		if s.logged.CompareAndSwap(true, false) {
			j.opts.Logger.Info("the journal can be written again", "dir", j.opts.Dir, "stream", s.name)
		}
	}
}

// Accepting returns nil while Requests can be written, as far as is known. Call it before work that must be journalled
// afterwards. It probes all streams, so that each recovers by itself.
func (j *Journal) Accepting() error {
	_ = j.Probe() // errors of other streams stop no request; the log and alerts report them
	return j.requests.err()
}

// Healthy returns an error if the last write of any stream failed. It does not write.
func (j *Journal) Healthy() error {
	for _, s := range j.streams() {
		if err := s.err(); err != nil {
			return err
		}
	}
	return nil
}

// Probe is Healthy, but an unhealthy journal tries a write, once a second at most, and recovers when that succeeds.
func (j *Journal) Probe() error {
	err := j.Healthy()
	if err == nil || !j.mayProbe() {
		return err
	}
	if err := j.scratch(); err != nil {
		return err
	}
	for _, s := range j.streams() {
		if s.err() == nil {
			continue
		}
		if err := s.write([]byte{'\n'}, false); err != nil {
			return err
		}
		j.logHealth(s, nil)
	}
	return nil
}

// Try is Probe, but also writes when the journal is healthy. It is for a process that hardly ever writes: the disk may
// be full for the other processes.
func (j *Journal) Try() error {
	if err := j.Probe(); err != nil {
		return err
	}
	return j.scratch()
}

func (j *Journal) mayProbe() bool {
	last, now := j.lastProbe.Load(), j.opts.Now().UnixNano()
	if age := time.Duration(now - last); age.Abs() < probeEvery {
		return false
	}
	return j.lastProbe.CompareAndSwap(last, now)
}

// probeRoom is how many bytes a disk must accept before it counts as having room again: a single newline often fits
// into the last page of a file on a full disk.
const probeRoom = 256 << 10

func (j *Journal) scratch() error {
	f, err := os.CreateTemp(j.opts.Dir, disk.Unfinished)
	if err == nil {
		_, err = f.Write(make([]byte, probeRoom))
		err = errors.Join(err, f.Close(), os.Remove(f.Name()))
	}
	if err != nil {
		return fmt.Errorf("writing to the journal's directory: %w", err)
	}
	return nil
}
