package queue

import (
	"cmp"
	"slices"
)

// ending is a settlement as the settle script sees it.
type ending struct {
	*Settlement
	at     int // which of the call's settlements it is
	page   int64
	letter byte
}

var verdictLetters = [...]byte{Done: 'D', Retry: 'R', Snooze: 'S', Bury: 'B', Release: 'L', Expire: 'E'}

// doneKept is the letter of Done for a job that has attempts or a body key to remove.
const doneKept = 'K'

// endings puts settlements in the order in which settle.lua takes them: those that have so much in common that they make a run stand together.
func endings(st []Settlement) []ending {
	order := make([]ending, len(st))
	for i := range st {
		x := &st[i]
		order[i] = ending{Settlement: x, at: i, page: x.Lease.ref >> (indexBits + 2), letter: verdictLetters[x.Verdict]}
		if x.Verdict == Done && x.Lease.kept {
			order[i].letter = doneKept
		}
	}
	slices.SortFunc(order, func(a, b ending) int { return cmp.Or(a.compareRun(b), cmp.Compare(a.Lease.ref, b.Lease.ref)) })
	return order
}

// compareRun is 0 for settlements that make a run.
func (e *ending) compareRun(o ending) int {
	return cmp.Or(cmp.Compare(e.Lease.Token, o.Lease.Token), cmp.Compare(e.page, o.page), cmp.Compare(e.letter, o.letter), cmp.Compare(e.Endpoint, o.Endpoint))
}

// settleArgs are the arguments of settle.lua for a bucket with these small hashes.
func settleArgs(order []ending, small smallHashes) (args []any, err error) {
	args = make([]any, 0, 2+4*len(order)+8*6)
	args = append(args, len(order))
	for i := range order {
		args = append(args, order[i].Lease.ref)
	}
	for len(order) > 0 {
		n, first := 1, &order[0]
		for n < len(order) && first.compareRun(order[n]) == 0 {
			n++
		}
		args = append(args, first.Lease.Token, first.page, first.Lease.Topic, string(first.letter), int(first.Endpoint), n)
		for i := range order[:n] {
			if args, err = order[i].append(args, small); err != nil {
				return nil, err
			}
		}
		order = order[n:]
	}
	return append(args, small.splits), nil
}

// append adds what the script has to know of a job beside its place: its locator, or when it comes back and the attempts to keep.
func (e *ending) append(args []any, small smallHashes) ([]any, error) {
	args = append(args, e.Lease.ref>>2&(1<<indexBits-1))
	switch {
	case e.Verdict == Release:
		return append(args, "", ""), nil
	case e.Verdict == Done:
		l := locate(e.Lease.Topic, e.Lease.ID, small.locators)
		return append(args, small.appendKey(nil, l), l[:]), nil
	}
	attempts, err := settledAttempts(e.Settlement)
	if err != nil {
		return nil, err
	}
	return append(args, max(0, ceilDelay(e.Delay)), attempts), nil
}

// heldBut reads the answer of settle.lua: which of the settlements, as they were given, met a lease that was held.
func heldBut(lost any, order []ending) (held []bool, ok bool) {
	numbers, ok := lost.([]any)
	if !ok {
		return nil, false
	}
	held = slices.Repeat([]bool{true}, len(order))
	for _, v := range numbers {
		n, _ := v.(int64)
		if n < 1 || n > int64(len(order)) {
			return nil, false
		}
		held[order[n-1].at] = false
	}
	return held, true
}
