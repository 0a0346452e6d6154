package app

import (
	"github.com/wakecall/wakecall/conf"
	"github.com/wakecall/wakecall/master"
	"github.com/wakecall/wakecall/registry"
	"github.com/wakecall/wakecall/setup"
)

// MasterOptions are what the master runs of a configuration.
func MasterOptions(cfg *conf.Config, version string, shards []registry.Shard) (master.Options, error) {
	config, err := cfg.MarshalPrivate()
	if err != nil {
		return master.Options{}, err
	}
	return master.Options{
		Version: version, DataDir: cfg.DataPath(), ShutdownTimeout: cfg.ShutdownTimeout, MetricsAddr: cfg.Metrics.Addr,
		Roles: []master.RoleSpec{
			{Name: RoleServer, Count: 1, Config: config, Listeners: []master.ListenSpec{{Name: apiSocket, Key: "server.addr", Addr: cfg.Server.Addr}}},
			{Name: RoleTimer, Count: cfg.Timers, Numbered: true, Config: config},
			{Name: RoleDispatcher, Count: cfg.Dispatchers, Numbered: true, Config: config},
			{Name: RoleChecker, Count: 1, Config: config},
			{Name: RoleAdmin, Count: 1, Config: config, Listeners: []master.ListenSpec{{Name: adminSocket, Key: "admin.addr", Addr: cfg.Admin.Addr}}},
		},
		Redis: master.RedisOptions{
			Managed: setup.IsManaged(shards), Binary: cfg.Redis.Binary, Dir: cfg.RedisDir(), Socket: cfg.RedisSocket(), MaxMemory: int64(cfg.Redis.MaxMemory),
		},
	}, nil
}
