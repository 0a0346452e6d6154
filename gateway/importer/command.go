package importer

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/pflag"

	"github.com/wakecall/wakecall/conf/address"
)

// Command describes the command that imports from one system.
type Command struct {
	Short string
	Flags func(*pflag.FlagSet) Open // adds the flags of this command
}

// Open opens the system given by the flags. setting returns the value of a configuration key.
type Open func(ctx context.Context, setting func(key string) string) (s Source, closeSource func(), err error)

// FlagError is returned for a flag with a missing or invalid value.
type FlagError struct{ text string }

func (e *FlagError) Error() string { return e.text }

// FlagErrorf returns a FlagError.
func FlagErrorf(format string, args ...any) error { return &FlagError{fmt.Sprintf(format, args...)} }

// RedisFlag adds a flag for the URL of an old Redis. The returned function parses it.
func RedisFlag(f *pflag.FlagSet, example string) func() (*redis.Options, error) {
	url := f.String("redis", "", "`URL` of the Redis to import from: "+example)
	return func() (*redis.Options, error) {
		if *url == "" {
			return nil, FlagErrorf("--redis is required")
		}
		return ParseRedis("--redis", *url)
	}
}

// ParseRedis parses the URL of a Redis. It omits the parser's error, which may contain the password.
func ParseRedis(flag, url string) (*redis.Options, error) {
	o, err := redis.ParseURL(url)
	if err != nil {
		return nil, FlagErrorf("%s %q must be a Redis URL such as redis://:password@host:6379/0",
			flag, address.Mask(url))
	}
	return o, nil
}
