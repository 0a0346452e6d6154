package app

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"

	"github.com/wakecall/wakecall/admin"
	"github.com/wakecall/wakecall/admin/account"
	"github.com/wakecall/wakecall/conf"
	"github.com/wakecall/wakecall/master"
)

func (p *parts) newAdmin(l net.Listener) (role, error) {
	certificates, err := adminTLS(p.cfg)
	if err != nil {
		return role{}, err
	}
	caller, err := p.newCaller()
	if err != nil {
		return role{}, err
	}
	o := p.adminOptions(caller)
	o.TLS = certificates
	a, err := admin.New(o)
	if err != nil {
		return role{}, err
	}
	return role{run: func(ctx context.Context) error { return a.Run(ctx, l) }}, nil
}

// adminRegistry is what the admin edits: the registry, and its own users.
type adminRegistry struct {
	*editedRegistry
	*account.Store
}

func adminTLS(cfg *conf.Config) (*tls.Config, error) {
	if cfg.Admin.TLSCert == "" {
		return nil, nil
	}
	pair, err := tls.LoadX509KeyPair(cfg.Admin.TLSCert, cfg.Admin.TLSKey)
	if err != nil {
		return nil, fmt.Errorf("admin.tls_cert and admin.tls_key: %w", err)
	}
	return &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}, nil
}

// masterOf is the master that works on a data directory.
type masterOf string

func (dir masterOf) Ps(ctx context.Context) (*master.Tree, error) { return master.Ps(ctx, string(dir)) }
func (dir masterOf) Reload(ctx context.Context) error             { return master.Reload(ctx, string(dir)) }
func (dir masterOf) Restart(ctx context.Context, role string, number int) error {
	return master.Restart(ctx, string(dir), role, number)
}
