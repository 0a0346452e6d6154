package queue

import (
	"context"
	"crypto/tls"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/wakecall/wakecall/internal/queue/address"
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
	switch node.Kind {
	case address.Cluster:
		return redis.NewClusterClient(u.Cluster()), o.Buckets, nil
	case address.Sentinel:
		return redis.NewFailoverClient(u.Failover()), 1, nil
	case address.Standalone:
		s := u.Simple()
		s.Network = node.Network
		return redis.NewClient(s), 1, nil
	}
	return nil, 0, fmt.Errorf("unknown kind of shard address: %v", node.Kind)
}
