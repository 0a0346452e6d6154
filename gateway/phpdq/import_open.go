package phpdq

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/pflag"
	"gorm.io/gorm"

	"github.com/wakecall/wakecall/conf/address"
	"github.com/wakecall/wakecall/gateway/importer"
	"github.com/wakecall/wakecall/internal/registry/database"
	"github.com/wakecall/wakecall/internal/registry/seal"
)

func importFlags(f *pflag.FlagSet) importer.Open {
	mysql := f.String("mysql", "", "`DSN` of php-delayqueue's database: mysql://user:pw@tcp(host:3306)/dq")
	shards := f.StringArray("redis", nil,
		"`HOST:PORT[:PASSWORD]` of a Redis; may be repeated (default: those in the table dq_redis)")
	return func(ctx context.Context, setting func(string) string) (importer.Source, func(), error) {
		switch {
		case *mysql == "":
			return nil, nil, importer.FlagErrorf("--mysql is required")
		case !strings.HasPrefix(*mysql, "mysql://"):
			return nil, nil, importer.FlagErrorf("--mysql %q must be mysql://user:password@tcp(host:3306)/dq",
				address.Mask(*mysql))
		}
		return openSource(ctx, *mysql, *shards, zone(setting))
	}
}

// openSource reads the registry of a php-delayqueue from MySQL, and opens its shards or the given ones. The returned
// function closes them.
func openSource(
	ctx context.Context, dsn string, shards []string, zone *time.Location,
) (importer.Source, func(), error) {
	topics, stored, err := readRegistry(ctx, dsn)
	if err != nil {
		text := strings.TrimPrefix(err.Error(), database.ErrUnavailable.Error()+": ") // not Wakecall's registry
		return nil, nil, fmt.Errorf("database of php-delayqueue: %s", strings.TrimPrefix(text, "registry "))
	}
	if len(shards) == 0 {
		shards = stored
	}
	if len(shards) == 0 {
		return nil, nil, errors.New("dq_redis is empty: set --redis host:port[:password]")
	}
	var options []*redis.Options
	for _, shard := range shards {
		o, err := parseShard(shard)
		if err != nil {
			return nil, nil, err
		}
		options = append(options, o)
	}
	var clients []*redis.Client
	for _, o := range options {
		clients = append(clients, importer.Connect(o))
	}
	return newSource(topics, clients, zone), func() {
		for _, c := range clients {
			_ = c.Close()
		}
	}, nil
}

// readRegistry returns the topics and the shards in a php-delayqueue's database.
func readRegistry(ctx context.Context, dsn string) (topics []topicRow, shards []string, err error) {
	db, err := database.Open(dsn, seal.Key{})
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = db.Close() }()
	err = db.Read(ctx, func(tx *gorm.DB) error {
		if err := tx.Table("dq_topic").Order("id").Find(&topics).Error; err != nil {
			return err
		}
		return tx.Table("dq_redis").Order("id").Pluck("t_content", &shards).Error
	})
	return topics, shards, err
}

// parseShard parses host:port[:password], which a replica may follow after a comma.
func parseShard(shard string) (*redis.Options, error) {
	master, _, _ := strings.Cut(shard, ",")
	parts := strings.SplitN(strings.TrimSpace(master), ":", 3)
	if len(parts) < 2 {
		return nil, fmt.Errorf("--redis or dq_redis: %.60q must be host:port[:password]", parts[0])
	}
	o := &redis.Options{Addr: strings.TrimSpace(parts[0]) + ":" + strings.TrimSpace(parts[1])}
	if len(parts) == 3 {
		o.Password = strings.TrimSpace(parts[2])
	}
	return o, nil
}
