package importer

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"gorm.io/gorm"

	"github.com/wakecall/wakecall/internal/registry/database"
	"github.com/wakecall/wakecall/internal/registry/seal"
)

// OpenPHPDQ reads the registry of a php-delayqueue from its MySQL and opens its shards, or the given ones. The returned
// function closes them.
func OpenPHPDQ(
	ctx context.Context, dsn string, shards []string, zone *time.Location,
) (p *PHPDQ, closeAll func(), err error) {
	var topics []phpTopic
	var rows []struct{ TContent string }
	db, err := database.Open(dsn, seal.Key{})
	if err != nil {
		return nil, nil, ofOld(err)
	}
	err = db.Read(ctx, func(tx *gorm.DB) error {
		if err := tx.Table("dq_topic").Order("id").Find(&topics).Error; err != nil {
			return err
		}
		return tx.Table("dq_redis").Order("id").Find(&rows).Error
	})
	_ = db.Close()
	if err != nil {
		return nil, nil, ofOld(err)
	}
	if len(shards) == 0 {
		for _, row := range rows {
			shards = append(shards, row.TContent)
		}
	}
	if len(shards) == 0 {
		return nil, nil, errNoShard
	}
	var clients []*redis.Client
	closeAll = func() {
		for _, c := range clients {
			_ = c.Close()
		}
	}
	for _, shard := range shards {
		master, _, _ := strings.Cut(shard, ",") // a replica may follow
		parts := strings.SplitN(strings.TrimSpace(master), ":", 3)
		if len(parts) < 2 {
			closeAll()
			return nil, nil, fmt.Errorf("the Redis %.60q, of --redis or dq_redis, is not host:port[:password]", parts[0])
		}
		o := &redis.Options{Addr: strings.TrimSpace(parts[0]) + ":" + strings.TrimSpace(parts[1])}
		if len(parts) == 3 {
			o.Password = strings.TrimSpace(parts[2])
		}
		clients = append(clients, Connect(o))
	}
	return NewPHPDQ(topics, clients, zone), closeAll, nil
}

// ofOld marks an error as one of the old system's database, because it does not concern Wakecall's registry.
func ofOld(err error) error {
	text := strings.TrimPrefix(err.Error(), database.ErrUnavailable.Error()+": ")
	return fmt.Errorf("the database of php-delayqueue: %s", strings.TrimPrefix(text, "registry "))
}
