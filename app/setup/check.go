package setup

import (
	"context"
	"fmt"

	"github.com/wakecall/wakecall/conf"
	"github.com/wakecall/wakecall/internal/log/printable"
)

// Verdict is the outcome of a check.
type Verdict string

const (
	Good    Verdict = "ok"
	Hint    Verdict = "hint" // an improvement
	Warning Verdict = "warning"
	Failed  Verdict = "FAILED"
)

// Finding is one result of `wakecall check`.
type Finding struct {
	What    string  `json:"what"`
	Verdict Verdict `json:"verdict"`
	Detail  string  `json:"detail"`
	Advice  string  `json:"advice,omitempty"` // how to fix it
}

func fine(what, form string, args ...any) Finding {
	return Finding{What: what, Verdict: Good, Detail: fmt.Sprintf(form, args...)}
}

func warn(what, detail, advice string) Finding {
	return Finding{What: what, Verdict: Warning, Detail: detail, Advice: advice}
}

func failed(what, detail, advice string) Finding {
	return Finding{What: what, Verdict: Failed, Detail: detail, Advice: advice}
}

// failedErr returns a failed finding, with the error's text on one line.
func failedErr(what string, err error, advice string) Finding {
	return failed(what, printable.Error(err), advice)
}

// Check runs all checks, in the order in which they would fail at start-up.
func Check(ctx context.Context, cfg *conf.Config) []Finding {
	source := cfg.File()
	if source == "" {
		source = "no file: defaults, environment and flags"
	}
	findings := []Finding{fine("configuration", "%s", source)}
	findings = append(findings, checkCertificates(cfg)...)
	findings = append(findings, checkDirs(cfg)...)
	findings = append(findings, checkPorts(ctx, cfg)...)
	registryFindings, shards := checkRegistry(ctx, cfg)
	findings = append(findings, registryFindings...)
	findings = append(findings, checkShards(ctx, cfg, shards)...)
	findings = append(findings, checkAlertmanager(ctx, cfg)...)
	findings = append(findings, checkSignIn(ctx, cfg)...)
	return append(findings, checkCallbacks(cfg))
}
