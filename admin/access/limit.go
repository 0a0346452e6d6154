package access

import (
	"net/netip"
	"sync"
	"time"
)

// loginLimit slows down guessing of passwords: after some failures from an address, further tries from there must wait.
// The tries of an account from all addresses together are limited much later, and not at all from where its user last
// signed in, so that guessers keep nobody out.
type loginLimit struct {
	now func() time.Time

	mu    sync.Mutex
	tries map[string]failures // by account/NAME, address/IP and both
}

type failures struct {
	count int
	since time.Time // of the first of them
}

const (
	loginWindow    = 5 * time.Minute
	pairTries      = 5   // of an account from one address
	addressTries   = 20  // of all accounts from one address
	accountTries   = 100 // of an account from all addresses
	rememberedKeys = 10_000
)

func newLoginLimit(now func() time.Time) *loginLimit {
	return &loginLimit{now: now, tries: map[string]failures{}}
}

// try counts a try and says how long to wait first; 0: it may be made. A try is counted before the password is
// compared, so that many at once count as many. last is from where the account's user last signed in.
func (l *loginLimit) try(account, address, last string) (wait time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	place := addressKey(address)
	keys := map[string]int{accountKey(account) + place: pairTries, place: addressTries}
	if last == "" || addressKey(last) != place {
		keys[accountKey(account)] = accountTries
	}
	for key, most := range keys {
		f := l.tries[key]
		if left := loginWindow - l.now().Sub(f.since); f.count >= most && left > 0 {
			wait = max(wait, left)
		}
	}
	if wait > 0 {
		return wait
	}
	l.forgetOld()
	for key := range keys {
		f := l.tries[key]
		if l.now().Sub(f.since) >= loginWindow {
			f = failures{since: l.now()}
		}
		f.count++
		l.tries[key] = f
	}
	return 0
}

// passed forgets an account's failures from an address, and takes the try back from what else it counted for.
func (l *loginLimit) passed(account, address string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.tries, accountKey(account)+addressKey(address))
	for _, key := range []string{accountKey(account), addressKey(address)} {
		if f, ok := l.tries[key]; ok && f.count > 0 {
			f.count--
			l.tries[key] = f
		}
	}
}

func accountKey(name string) string { return "account/" + name + "/" }

// addressKey is the same for all addresses that one customer of a provider has: of IPv6 that is a network of 64 bits.
func addressKey(address string) string {
	if ip, err := netip.ParseAddr(address); err == nil {
		if ip = ip.Unmap().WithZone(""); ip.Is6() {
			network, _ := ip.Prefix(64) // no error: it is one of IPv6
			address = network.String()
		}
	}
	return "address/" + address
}

// forgetOld bounds the memory.
func (l *loginLimit) forgetOld() {
	if len(l.tries) < rememberedKeys {
		return
	}
	for key, f := range l.tries {
		if l.now().Sub(f.since) >= loginWindow {
			delete(l.tries, key)
		}
	}
	for key := range l.tries {
		if len(l.tries) < rememberedKeys {
			return
		}
		delete(l.tries, key)
	}
}
