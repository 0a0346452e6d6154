package history

import (
	"time"
)

// shardSlots collects the readings in each tier's open slot, by tier and shard.
type shardSlots map[string]map[string]*shardSlot

type shardSlot struct {
	rounds, up int
	last       ShardReading
	p99        time.Duration // the worst of the slot
}

func (s shardSlots) add(shards []ShardReading) {
	for _, t := range tiers {
		if s[t.Name] == nil {
			s[t.Name] = map[string]*shardSlot{}
		}
		for _, r := range shards {
			slot := s[t.Name][r.Name]
			if slot == nil {
				slot = &shardSlot{}
				s[t.Name][r.Name] = slot
			}
			slot.add(r)
		}
	}
}

func (s *shardSlot) add(r ShardReading) {
	s.rounds++
	if r.Up {
		s.up++
	}
	s.last, s.p99 = r, max(s.p99, r.P99)
}

// end ends a tier's slot and returns its records by shard.
func (s shardSlots) end(t Tier) map[string]shardRecord {
	records := map[string]shardRecord{}
	for name, slot := range s[t.Name] {
		r := slot.last
		records[name] = shardRecord{
			Up: float64(slot.up) / float64(slot.rounds), P50: ms(r.P50), P99: ms(slot.p99), Memory: r.Memory,
			MaxMemory: r.MaxMemory, Jobs: r.Jobs,
		}
	}
	delete(s, t.Name)
	return records
}
