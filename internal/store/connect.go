package store

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/wakecall/wakecall/conf/address"
)

func init() {
	redis.SetLogger(silent{}) // commands return their errors; the client need not log them as well
}

type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}

// connect makes the client of one shard without dialling. That of a Cluster repeats plain commands after errors,
// whatever MaxRetries says; scripts are sent so that it does not, see command. A command may take wait longer than the
// timeout.
func connect(url string, o Options, wait time.Duration) (client redis.UniversalClient, buckets int, err error) {
	node, err := address.Parse(url)
	if err != nil {
		return nil, 0, err
	}
	u := &redis.UniversalOptions{
		Addrs:                 node.Addrs,
		Username:              node.User,
		Password:              node.Password,
		DB:                    node.DB,
		MasterName:            node.Master,
		SentinelUsername:      node.SentinelUser,
		SentinelPassword:      node.SentinelPassword,
		MaxRetries:            -1,
		DialTimeout:           o.Timeout / 2,
		ReadTimeout:           o.Timeout + wait,
		WriteTimeout:          o.Timeout,
		PoolTimeout:           o.Timeout,
		ContextTimeoutEnabled: true,
		PoolSize:              o.PoolSize,
		DisableIdentity:       true,
		DialerRetries:         1,

		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
	if node.TLS {
		u.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	if o.Control != nil && node.Network != "unix" {
		d := &net.Dialer{Timeout: u.DialTimeout, ControlContext: o.Control}
		u.Dialer = d.DialContext
		if node.TLS {
			u.Dialer = (&tls.Dialer{NetDialer: d, Config: u.TLSConfig}).DialContext
		}
	}
	switch node.Kind {
	case address.Cluster:
		return connectCluster(u.Cluster(), o.Timeout), o.Buckets, nil
	case address.Sentinel:
		return redis.NewFailoverClient(u.Failover()), 1, nil
	case address.Standalone:
		s := u.Simple()
		s.Network = node.Network
		return redis.NewClient(s), 1, nil
	}
	return nil, 0, fmt.Errorf("unknown kind of shard address: %v", node.Kind)
}

func connectCluster(o *redis.ClusterOptions, timeout time.Duration) *redis.ClusterClient {
	// Otherwise the first command of each kind asks a random node about all commands, which may hang.
	o.DisableRoutingPolicies = true
	client := redis.NewClusterClient(o)
	watch := &slotsWatch{client: client, limit: timeout / 4}
	client.OnNewNode(func(node *redis.Client) { node.AddHook(watch) })
	return client
}

// slotsWatch makes the client of a Cluster ask which node has which slots when a connection fails, since another node
// may have taken over; otherwise it asks once a minute. It lets the client ask another node when one does not answer.
type slotsWatch struct {
	client *redis.ClusterClient
	limit  time.Duration // of that question to one node
	asked  atomic.Int64  // Unix ms
}

// slotsEvery is the least time between two such questions.
const slotsEvery = time.Second

func (w *slotsWatch) noticed(ctx context.Context, err error) error {
	var reply redis.Error
	if err == nil || errors.As(err, &reply) || errors.Is(err, context.Canceled) {
		return err
	}
	now, last := time.Now().UnixMilli(), w.asked.Load()
	if now-last >= slotsEvery.Milliseconds() && w.asked.CompareAndSwap(last, now) {
		w.client.ReloadState(ctx)
	}
	return err
}

// DialHook implements redis.Hook.
func (w *slotsWatch) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := next(ctx, network, addr)
		return conn, w.noticed(ctx, err)
	}
}

// ProcessHook implements redis.Hook.
func (w *slotsWatch) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() == "cluster" {
			limited, cancel := context.WithTimeout(ctx, w.limit)
			defer cancel()
			return next(limited, cmd)
		}
		return w.noticed(ctx, next(ctx, cmd))
	}
}

// ProcessPipelineHook implements redis.Hook.
func (w *slotsWatch) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error { return w.noticed(ctx, next(ctx, cmds)) }
}
