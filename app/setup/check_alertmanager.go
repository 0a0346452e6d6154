package setup

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/wakecall/wakecall/conf"
	"github.com/wakecall/wakecall/internal/callback"
)

// checkAlertmanager reports whether the Alertmanager is ready, and callback.networks allows its address.
func checkAlertmanager(ctx context.Context, cfg *conf.Config) []Finding {
	const what = "alert.alertmanager_url"
	address := strings.TrimRight(cfg.Alert.AlertmanagerURL, "/")
	if address == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address+"/-/ready", nil)
	if err != nil {
		return []Finding{failedErr(what, err, "")}
	}
	caller, err := callback.New(callback.Options{Networks: cfg.Callback.Networks})
	if err != nil {
		return nil // checkCallbacks reports it
	}
	defer caller.Close()
	resp, err := caller.Client().Do(r)
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err
	}
	if err != nil {
		return []Finding{failedErr(what, err, "Check the URL; alerts are still sent by mail and webhooks")}
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return []Finding{failed(
			what, "GET /-/ready returned "+resp.Status, "Check that it is the URL of an Alertmanager")}
	}
	return []Finding{fine(what, "the Alertmanager at %s is ready", address)}
}
