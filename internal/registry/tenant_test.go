package registry

import "testing"

// TestTokensThatATokenMadeCountWithIt, however many it makes. Those that a token for all topics made count each.
func TestTokensThatATokenMadeCountWithIt(t *testing.T) {
	s := &Snapshot{Tokens: map[string]*Token{}}
	add := func(id uint64, topics string, rights ...Right) *Token {
		token := &Token{ID: id, Hash: topics + string(rune(id)), Rights: rights, Topics: []string{topics}}
		s.Tokens[token.Hash] = token
		return token
	}
	add(1, "*", Rights...)
	for _, c := range []struct {
		token  *Token
		tenant uint64
	}{
		{add(2, "shop.*", RightTokens, RightConsume), 2},
		{add(3, "bank.*", RightTokens, RightConsume), 3},
		{add(4, "shop.*", RightConsume), 2},
		{add(5, "shop.orders", RightConsume), 2},
		{add(6, "bank.orders", RightConsume), 3},
		{add(7, "bank.orders", RightPush), 7},           // more than 3 allows
		{add(8, "other.*", RightPush, RightConsume), 8}, // may not make tokens
		{add(9, "other.orders", RightConsume), 9},
	} {
		if got := s.Tenant(c.token); got != c.tenant {
			t.Errorf("token %d counts with %d, want %d", c.token.ID, got, c.tenant)
		}
	}
}
