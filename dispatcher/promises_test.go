package dispatcher

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wakecall/wakecall/internal/store"
)

func TestAnIdleDispatcherPollsOnceASecondAndReservesOnce(t *testing.T) {
	f := newFake("a")
	play(t, setting{concurrency: 256, shards: []*fake{f}}, func(t *testing.T, _ *stage) {
		pass(time.Minute)
		f.set(func() {
			if n := len(f.reserves) + f.looks; n > 62 || n < 55 {
				t.Errorf("%d polls and reserves in a minute", n)
			}
			if n := len(f.reserves); n != 1 {
				t.Errorf("%d reserves in a minute", n)
			}
		})
	})
}

// The idle key of an earlier version expires, and a server that lost its last second may have lost the key.
func TestALostIdleKeyIsSetAgain(t *testing.T) {
	f := newFake("a")
	play(t, setting{concurrency: 256, shards: []*fake{f}}, func(t *testing.T, _ *stage) {
		for range 5 {
			pass(20 * time.Second)
			f.set(func() { f.noted = false })
			pass(1100 * time.Millisecond)
			f.set(func() {
				if !f.noted {
					t.Fatal("no reserve set the key within a second")
				}
			})
		}
	})
}

func TestAJobIsCalledWithinASecondThoughNoWakeUpArrives(t *testing.T) {
	f := newFake("a")
	play(t, setting{concurrency: 256, shards: []*fake{f}}, func(t *testing.T, s *stage) {
		for n := 1; n <= 30; n++ {
			pass(1700 * time.Millisecond)
			f.push("a", 1)
			pass(time.Second)
			if got, _, _ := s.calls(); got != n {
				t.Fatalf("%d of %d jobs were called a second after the last was ready", got, n)
			}
		}
	})
}

// The job of the wake-up was reserved by another dispatcher, and the idle key is gone: it must be set again.
func TestAWakeUpIsFollowedByAReserveThoughNothingIsReady(t *testing.T) {
	f := newFake("a")
	play(t, setting{concurrency: 256, shards: []*fake{f}}, func(t *testing.T, _ *stage) {
		for _, kind := range []store.WakeupKind{store.WakeDispatcher, store.WakeReconnect} {
			pass(2300 * time.Millisecond)
			before := 0
			f.set(func() { before = len(f.reserves) })
			f.wake <- store.Wakeup{Kind: kind}
			pass(time.Millisecond)
			f.set(func() {
				if len(f.reserves) != before+1 {
					t.Errorf("%d reserves after a wake-up of kind %d", len(f.reserves)-before, kind)
				}
			})
		}
	})
}

// TestALockedTopicIsNotCalled: this host cannot open its secrets, so its jobs are left to other hosts.
func TestALockedTopicIsNotCalled(t *testing.T) {
	f := newFake("a")
	play(t, setting{concurrency: 4, shards: []*fake{f}}, func(t *testing.T, s *stage) {
		s.topics["a"].Locked = true
		f.push("a", 1)
		f.wake <- store.Wakeup{Kind: store.WakeDispatcher}
		pass(time.Second)
		if ids, _, _ := s.calls(); ids != 0 || f.verbs()[store.Release] == 0 {
			t.Errorf("%d jobs were called; the settlements are %v", ids, f.verbs())
		}
	})
}

// TestUnknownTopicsAreSkipped until they are registered; those beyond a bound are postponed, since each topic that is
// skipped is an argument of every reserve.
func TestUnknownTopicsAreSkipped(t *testing.T) {
	f := newFake("a")
	f.requeue = true
	for n := range maxAvoided + 50 {
		f.push(fmt.Sprint("unknown", n), 1)
	}
	f.push("a", 1)
	notDeleted := func(context.Context, string) (bool, error) { return false, nil }
	set := setting{concurrency: 256, shards: []*fake{f}, deleted: notDeleted}
	play(t, set, func(t *testing.T, s *stage) {
		pass(50 * time.Second)
		if n, _, _ := s.calls(); n != 1 {
			t.Errorf("%d jobs were called, want that of the known topic", n)
		}
		f.set(func() {
			count, postponed := map[string]int{}, 0
			for _, st := range f.settled {
				if st.Verb == store.Done {
					continue
				}
				if st.Verb != store.Release || st.Attempt != nil || st.Endpoint != store.EndpointUnknown {
					t.Fatalf("settled as %+v", st)
				}
				if st.Delay > 0 {
					postponed++
				} else {
					count[st.Lease.Topic]++
				}
			}
			if len(count) != maxAvoided || postponed < 50 {
				t.Errorf("%d topics are skipped, %d jobs postponed", len(count), postponed)
			}
			for topic, n := range count {
				if n > 3 { // a reserve may have been on its way
					t.Errorf("%d jobs of %s were reserved and released", n, topic)
				}
			}
			for _, r := range f.reserves {
				if len(r.Busy) > maxAvoided+asideRatio*256 { // and those whose calls are aside
					t.Fatalf("a reserve names %d topics", len(r.Busy))
				}
			}
		})
	})
}

// TestAPlaceIsFreeWhileRetryIfIsEvaluated: an expression that takes long delays no other callback.
func TestAPlaceIsFreeWhileRetryIfIsEvaluated(t *testing.T) {
	f := newFake("a")
	f.push("a", 4)
	play(t, setting{concurrency: 4, hang: true, judge: true, shards: []*fake{f}}, func(t *testing.T, s *stage) {
		pass(20 * time.Millisecond)
		f.push("b", 4)
		f.wake <- store.Wakeup{Kind: store.WakeDispatcher}
		pass(20 * time.Millisecond)
		if ids, _, _ := s.calls(); ids != 8 {
			t.Errorf("%d jobs are called while the retry_if of four others is evaluated", ids-4)
		}
		close(s.answer)
	})
}

// TestALeaseIsExtendedWhileRetryIfWaitsForItsTurn: the stage checks that no call outlasts its lease.
func TestALeaseIsExtendedWhileRetryIfWaitsForItsTurn(t *testing.T) {
	for _, ttr := range []time.Duration{time.Second, 10 * time.Second, time.Minute} {
		f := newFake("a")
		f.push("a", 4)
		play(t, setting{concurrency: 4, hang: true, judge: true, ttr: ttr, shards: []*fake{f}},
			func(t *testing.T, s *stage) {
				pass(3 * time.Minute)
				close(s.answer)
				pass(time.Second)
				if got := f.verbs(); got[store.Done] != 4 {
					t.Errorf("with a TTR of %s: %v; want 4 done", ttr, got)
				}
				for _, src := range f.extended {
					if src > 3*60 {
						t.Errorf("a lease was extended %d times in three minutes", src)
					}
				}
			})
	}
}

// A reserve that filled every requested place does not set the idle key, so it must not be followed by a poll.
func TestAfterAFullReserveTheNextIsAReserve(t *testing.T) {
	f := newFake("a")
	f.push("a", 16)
	play(t, setting{concurrency: 16, hang: true, shards: []*fake{f}}, func(t *testing.T, s *stage) {
		pass(hangAfter - 100*time.Millisecond)
		f.set(func() {
			if f.looks != 0 {
				t.Errorf("%d polls while all places were in use", f.looks)
			}
		})
		close(s.answer)
		pass(100 * time.Millisecond)
		f.set(func() {
			if f.looks != 0 || len(f.reserves) < 3 {
				t.Errorf("after places became free: %d reserves in all, %d polls", len(f.reserves), f.looks)
			}
		})
	})
}

func TestSeveralIdleShardsShareThePolls(t *testing.T) {
	shards := []*fake{}
	for i := range 10 {
		shards = append(shards, newFake(fmt.Sprint(i)))
	}
	play(t, setting{concurrency: 256, shards: shards}, func(t *testing.T, _ *stage) {
		pass(time.Minute)
		n := 0
		for _, f := range shards {
			f.set(func() { n += len(f.reserves) + f.looks })
		}
		if n > 5*60 {
			t.Errorf("%d polls and reserves in a minute", n)
		}
	})
}

func TestAWakeUpIsAnsweredWithinAMillisecond(t *testing.T) {
	f := newFake("a")
	play(t, setting{concurrency: 256, shards: []*fake{f}}, func(t *testing.T, s *stage) {
		pass(300 * time.Millisecond)
		f.push("a", 1)
		f.wake <- store.Wakeup{Kind: store.WakeDispatcher}
		pass(time.Millisecond)
		if n, _, _ := s.calls(); n != 1 {
			t.Errorf("%d jobs were called", n)
		}
	})
}

func TestADispatcherContinuesAfterEntriesOfDeletedJobs(t *testing.T) {
	f := newFake("a")
	play(t, setting{concurrency: 256, shards: []*fake{f}}, func(t *testing.T, s *stage) {
		pass(300 * time.Millisecond)
		f.push("a", 1)
		f.set(func() { f.passed = 100 })
		f.wake <- store.Wakeup{Kind: store.WakeDispatcher}
		pass(time.Millisecond)
		if n, _, _ := s.calls(); n != 1 {
			t.Errorf("%d jobs were called", n)
		}
	})
}

func TestALostReserveReplyIsRepeatedWithTheSameToken(t *testing.T) {
	f := newFake("a")
	f.reserveErr, f.swallow = errAway, true
	f.push("a", 3)
	play(t, setting{concurrency: 16, shards: []*fake{f}}, func(t *testing.T, s *stage) {
		pass(5 * time.Second)
		f.set(func() { f.reserveErr = nil })
		pass(5 * time.Second)
		if n, most, _ := s.calls(); n != 3 || most != 1 {
			t.Errorf("%d jobs were called, up to %d times", n, most)
		}
		f.set(func() {
			for _, r := range f.reserves[1:4] {
				if r.Token != f.reserves[0].Token || !r.Again {
					t.Errorf("repeated as %+v after %+v", r, f.reserves[0])
				}
			}
		})
	})
}

func TestAShardThatIsDownIsPolledLessAndLess(t *testing.T) {
	f := newFake("a")
	f.reserveErr = errAway
	play(t, setting{concurrency: 16, shards: []*fake{f}}, func(t *testing.T, _ *stage) {
		pass(time.Minute)
		f.set(func() {
			if n := len(f.reserves); n > 70 || n < 15 {
				t.Errorf("%d reserves in a minute of failures", n)
			}
		})
	})
}

func TestAShardThatIsDownHoldsNoPlaces(t *testing.T) {
	up, down := newFake("up"), newFake("down")
	down.reserveErr = errAway
	for c := 'a'; c < 'a'+16; c++ {
		up.push(string(c), 1)
	}
	play(t, setting{concurrency: 16, hang: true, shards: []*fake{up, down}}, func(t *testing.T, s *stage) {
		pass(10 * time.Second)
		if _, _, inFlight := s.calls(); inFlight != 16 {
			t.Errorf("%d of 16 places are used while another shard is down", inFlight)
		}
		close(s.answer)
	})
}

func TestJobsOfALostReplyThatFindNoPlaceGoBackUncounted(t *testing.T) {
	up, down := newFake("up"), newFake("down")
	down.reserveErr, down.swallow = errAway, true
	down.push("z", 1)
	play(t, setting{concurrency: 4, hang: true, shards: []*fake{up, down}}, func(t *testing.T, s *stage) {
		for _, topic := range []string{"a", "b", "c", "d"} {
			up.push(topic, 1)
		}
		up.wake <- store.Wakeup{Kind: store.WakeDispatcher}
		pass(100 * time.Millisecond)
		if _, _, inFlight := s.calls(); inFlight != 4 {
			t.Fatalf("%d of 4 places are used", inFlight)
		}
		down.set(func() { down.reserveErr = nil })
		pass(600 * time.Millisecond)
		if _, _, inFlight := s.calls(); inFlight != 4 {
			t.Errorf("%d callbacks at once with a concurrency of 4", inFlight)
		}
		if got := down.verbs(); got[store.Release] != 1 || len(got) != 1 {
			t.Errorf("verdicts = %v, want the job released", got)
		}
		close(s.answer)
		pass(time.Second)
		if free := s.d.places.available(); free != 4 {
			t.Errorf("%d of 4 places are free at the end", free)
		}
	})
}

func TestJobsOfAReplyThatWasLostBeforeTheShutdownAreReleased(t *testing.T) {
	f := newFake("a")
	f.reserveErr, f.swallow = errAway, true
	f.push("a", 2)
	play(t, setting{concurrency: 4, shards: []*fake{f}}, func(t *testing.T, s *stage) {
		pass(100 * time.Millisecond)
		s.stop()
		synctest.Wait()
		f.set(func() { f.reserveErr = nil })
		pass(3 * time.Second)
		if got := f.verbs(); got[store.Release] != 2 || len(got) != 1 {
			t.Errorf("verdicts = %v, want both released", got)
		}
		if n, _, _ := s.calls(); n != 0 {
			t.Errorf("%d calls started after the shutdown began", n)
		}
	})
}

func TestACallExtendsItsLeaseWhenItsStartWindowIsOver(t *testing.T) {
	for held, want := range map[bool]int{true: 1, false: 0} {
		t.Run(fmt.Sprintf("held=%v", held), func(t *testing.T) {
			f := newFake("a")
			f.gone = !held
			play(t, setting{concurrency: 4, shards: []*fake{f}}, func(t *testing.T, s *stage) {
				s.dial = store.StartWindow + time.Millisecond
				f.push("a", 1)
				pass(5 * time.Second)
				if n, _, _ := s.calls(); n != want {
					t.Errorf("%d calls for a lease with held=%v", n, held)
				}
				if free := s.d.places.available(); free != 4 {
					t.Errorf("%d of 4 places are free", free)
				}
			})
		})
	}
}

func TestALateCallWaitsUntilItsLeaseCanBeExtended(t *testing.T) {
	f := newFake("a")
	f.extendErr = errAway
	play(t, setting{concurrency: 4, shards: []*fake{f}}, func(t *testing.T, s *stage) {
		s.dial = store.StartWindow + time.Millisecond
		f.push("a", 1)
		pass(2 * time.Second)
		if n, _, _ := s.calls(); n != 0 {
			t.Fatal("called without extending the lease")
		}
		f.set(func() { f.extendErr = nil })
		pass(4 * time.Second)
		if n, most, _ := s.calls(); n != 1 || most != 1 {
			t.Errorf("%d jobs were called, up to %d times; the job was lost", n, most)
		}
	})
}

// TestOutcomesAreHeldWhileRedisIsDown: they hold no places, but while they wait nothing more is reserved.
func TestOutcomesAreHeldWhileRedisIsDown(t *testing.T) {
	f := newFake("a")
	f.settleErr = errAway
	for c := 'a'; c <= 'z'; c++ {
		f.push(string(c), 1)
	}
	play(t, setting{concurrency: 4, shards: []*fake{f}}, func(t *testing.T, s *stage) {
		pass(time.Minute)
		// At most the places' jobs are unsettled, in a call, and on their way from the last reserve.
		if n, _, _ := s.calls(); n > 3*4 || s.d.places.available() != 4 {
			t.Errorf("%d calls without a settlement; %d of 4 places are free", n, s.d.places.available())
		}
		f.set(func() { f.settleErr = nil })
		pass(5 * time.Second)
		if got := f.verbs(); got[store.Done] != 26 || len(got) != 1 {
			t.Errorf("verdicts = %v", got)
		}
	})
}

func TestOutcomesOfARemovedShardAreAbandoned(t *testing.T) {
	kept, removed := newFake("kept"), newFake("removed")
	removed.settleErr = errAway
	removed.push("a", 1)
	removed.push("b", 1)
	play(t, setting{concurrency: 4, shards: []*fake{kept, removed}}, func(t *testing.T, s *stage) {
		pass(time.Second)
		s.mu.Lock()
		s.shards = s.shards[:1]
		s.mu.Unlock()
		s.changed <- struct{}{}
		pass(30 * time.Second)
		if free := s.d.places.available(); free != 4 {
			t.Errorf("%d of 4 places are free, half a minute after the shard was removed", free)
		}
	})
}

func TestLongCallsKeepTheirLeases(t *testing.T) {
	const jobs = 1500
	f := newFake("a")
	for c := 'a'; c <= 'z'; c++ {
		f.push(string(c), jobs/26+1)
	}
	play(t, setting{concurrency: 1600, hang: true, ttr: time.Minute, shards: []*fake{f}}, func(t *testing.T, s *stage) {
		pass(12 * time.Second)
		_, _, inFlight := s.calls()
		f.set(func() {
			if inFlight < jobs || len(f.extended) < inFlight {
				t.Errorf("after 12 of 16 s, %d calls are under way and %d leases extended", inFlight, len(f.extended))
			}
		})
		close(s.answer)
	})
}

func TestAPlaceThatBecomesFreeDuringAReserveIsUsed(t *testing.T) {
	f := newFake("a")
	f.push("a", 3)
	play(t, setting{concurrency: 4, hang: true, shards: []*fake{f}}, func(t *testing.T, s *stage) {
		pass(300 * time.Millisecond) // the topic has its share of 3
		f.push("a", 1)
		f.set(func() { f.took = 20 * time.Millisecond })
		f.wake <- store.Wakeup{Kind: store.WakeDispatcher}
		time.Sleep(5 * time.Millisecond)
		close(s.answer) // while the script that finds the topic at its limit is running
		pass(100 * time.Millisecond)
		if n, _, _ := s.calls(); n != 4 {
			t.Errorf("%d of 4 jobs were called; the last one waits for a poll", n)
		}
		f.set(func() { f.took = 0 })
	})
}

func TestHangingCallsAreCanceledAtShutdownAndReleased(t *testing.T) {
	f := newFake("a")
	f.push("a", 2)
	play(t, setting{concurrency: 8, hang: true, ttr: time.Minute, shards: []*fake{f}}, func(t *testing.T, s *stage) {
		pass(time.Second)
		began := time.Now()
		s.stop()
		err := <-s.done
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("the shutdown took %s with a shutdown timeout of 10s", took)
		}
		if got := f.verbs(); got[store.Release] != 2 || len(got) != 1 || err != nil {
			t.Errorf("verdicts = %v, %v", got, err)
		}
		s.done <- nil
	})
}

// TestAShortageOfThisHostCountsNoAttempt: the jobs are ready for another dispatcher at once. This one takes no more of
// the topic for a second.
func TestAShortageOfThisHostCountsNoAttempt(t *testing.T) {
	f := newFake("s")
	play(t, setting{concurrency: 16, shards: []*fake{f}}, func(t *testing.T, s *stage) {
		lack := func(short bool) { s.mu.Lock(); defer s.mu.Unlock(); s.short = short }
		lack(true)
		f.push("a", 3)
		f.wake <- store.Wakeup{Kind: store.WakeDispatcher}
		pass(time.Millisecond)
		f.set(func() {
			for _, st := range f.settled {
				if st.Verb != store.Release || st.Endpoint != store.EndpointUnknown || st.Attempt != nil {
					t.Errorf("settled as %+v", st)
				}
			}
		})
		lack(false)
		f.push("a", 1)
		f.push("b", 1)
		f.wake <- store.Wakeup{Kind: store.WakeDispatcher}
		pass(500 * time.Millisecond)
		if got := f.verbs(); got[store.Release] != 3 || got[store.Done] != 1 {
			t.Fatalf("after half a second: %v", got)
		}
		pass(2 * time.Second)
		if got := f.verbs(); got[store.Done] != 2 {
			t.Fatalf("after two seconds: %v", got)
		}
	})
}
