package listen

import (
	"net/netip"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
)

// A LoginLimit slows down the guessing of passwords. After some failures from an address, further tries from there must
// wait. The limit for all tries of an account is much higher, and does not apply to the address from which its user
// last signed in, so that guessers cannot lock out users. Its methods may be called from any goroutine.
type LoginLimit struct {
	now func() time.Time

	mu    sync.Mutex
	tries *lru.Cache[string, failures] // by account, address, and both
}

type failures struct {
	count int
	since time.Time // time of the first failure
}

const (
	loginWindow    = 5 * time.Minute
	pairTries      = 5   // for an account from one address
	addressTries   = 20  // for all accounts from one address
	accountTries   = 100 // for an account from all addresses
	rememberedKeys = 10_000
)

// NewLoginLimit returns a LoginLimit.
func NewLoginLimit(now func() time.Time) *LoginLimit {
	tries, _ := lru.New[string, failures](rememberedKeys) // fails only for a size of 0
	return &LoginLimit{now: now, tries: tries}
}

// Try counts a try, or returns how long to wait first. A try is counted before the password is compared, so that
// concurrent tries are all counted. last is the address from which the account's user last signed in, or "" if unknown.
func (l *LoginLimit) Try(account, address, last string) (wait time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	place := addressKey(address)
	keys := map[string]int{accountKey(account) + place: pairTries, place: addressTries}
	if last == "" || addressKey(last) != place {
		keys[accountKey(account)] = accountTries
	}
	for key, most := range keys {
		f, _ := l.tries.Get(key)
		if left := loginWindow - l.now().Sub(f.since); f.count >= most && left > 0 {
			wait = max(wait, left)
		}
	}
	if wait > 0 {
		return wait
	}
	for key := range keys {
		f, _ := l.tries.Get(key)
		if l.now().Sub(f.since) >= loginWindow {
			f = failures{since: l.now()}
		}
		f.count++
		l.tries.Add(key, f)
	}
	return 0
}

// Passed forgets an account's failures from an address, and uncounts the last try in the other limits.
func (l *LoginLimit) Passed(account, address string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tries.Remove(accountKey(account) + addressKey(address))
	for _, key := range []string{accountKey(account), addressKey(address)} {
		if f, ok := l.tries.Get(key); ok && f.count > 0 {
			f.count--
			l.tries.Add(key, f)
		}
	}
}

// longestName is how many bytes of an account's name are stored, since clients may send any name.
const longestName = 64

func accountKey(name string) string { return "account/" + name[:min(len(name), longestName)] + "/" }

// addressKey returns the same key for all addresses that a customer of a provider usually has: for IPv6, a /64 network.
func addressKey(address string) string {
	if ip, err := netip.ParseAddr(address); err == nil {
		if ip = ip.Unmap().WithZone(""); ip.Is6() {
			network, _ := ip.Prefix(64) // cannot fail for an IPv6 address
			address = network.String()
		}
	}
	return "address/" + address
}
