package lmstfy

import (
	"testing"

	"github.com/wakecall/wakecall/test/pulltest"
)

// TestTheAccountsOfTheConfigurationAreRequired: without their file, nobody is served.
func TestTheAccountsOfTheConfigurationAreRequired(t *testing.T) {
	t.Parallel()
	pulltest.NeedsAccounts(t, Protocol, keyAdminAddr, keyAccounts)
}
