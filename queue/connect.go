package queue

import (
	"context"
	"crypto/tls"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/wakecall/wakecall/conf"
)

func init() {
	redis.SetLogger(silent{}) // errors come back with the commands; said twice, they would only bury the log
}

type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}

// connect makes the client of one shard; nothing is dialled yet. Commands are never repeated by the client: a script
// that may have run is repeated only by code that knows it to be harmless. A command may take wait longer than it should.
func connect(url string, o Options, wait time.Duration, meet func(context.Context, *redis.Conn) error) (redis.UniversalClient, int, error) {
	node, err := conf.ParseNode(url)
	if err != nil {
		return nil, 0, err
	}
	u := &redis.UniversalOptions{
		Addrs:                 node.Addrs,
		Username:              node.User,
		Password:              string(node.Password),
		DB:                    node.DB,
		MasterName:            node.Master,
		SentinelUsername:      node.SentinelUser,
		SentinelPassword:      string(node.SentinelPassword),
		MaxRetries:            -1,
		DialTimeout:           min(o.Timeout, time.Second),
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
	if o.Hold > 0 && node.Kind != conf.Cluster { // whose connections do not tell when a replica becomes a master
		u.OnConnect = meet
	}
	switch node.Kind {
	case conf.Cluster:
		return redis.NewClusterClient(u.Cluster()), o.Buckets, nil
	case conf.Sentinel:
		return redis.NewFailoverClient(u.Failover()), 1, nil
	case conf.Standalone:
		s := u.Simple()
		s.Network = node.Network
		return redis.NewClient(s), 1, nil
	}
	return nil, 0, fmt.Errorf("shard address of kind %v is not known", node.Kind)
}
