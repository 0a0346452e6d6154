package setup

import (
	"github.com/wakecall/wakecall/conf"
	"github.com/wakecall/wakecall/internal/callback"
)

// checkCallbacks reports which addresses callbacks may reach.
func checkCallbacks(cfg *conf.Config) Finding {
	const what = "callback.networks"
	caller, err := callback.New(callback.Options{Networks: cfg.Callback.Networks})
	if err != nil {
		return failedErr(what, err, "")
	}
	caller.Close()
	switch cfg.Callback.Networks {
	case "any":
		return fine(what, "any: public, private and loopback addresses; never link-local, cloud metadata and "+
			"multicast addresses")
	case "public":
		return fine(what, "public addresses only; endpoints on private networks or on this machine are not called")
	}
	return fine(what, "public addresses and %s", cfg.Callback.Networks)
}
