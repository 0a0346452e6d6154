package app

import (
	"testing"

	"github.com/wakecall/wakecall/conf"
	"github.com/wakecall/wakecall/internal/registry"
)

func TestMasterOptionsCarryTheConfiguration(t *testing.T) {
	cfg, err := conf.Load(conf.LoadOptions{
		Env: []string{"WAKECALL_REGISTRY_DSN=mysql://u:hidden@tcp(h:3306)/w"}, Search: []string{},
	})
	if err != nil {
		t.Fatal(err)
	}
	opts, err := MasterOptions(cfg, "v1", []registry.Shard{{Name: "x", URL: "redis://h", State: registry.ShardActive}})
	if err != nil {
		t.Fatal(err)
	}
	if opts.Redis.Managed {
		t.Error("there is no managed shard")
	}
	back, err := conf.UnmarshalPrivate(opts.Roles[0].Config, GatewayKeys())
	if err != nil || back.Registry.DSN.Reveal() != "mysql://u:hidden@tcp(h:3306)/w" {
		t.Errorf("a child would get %+v, %v", back, err)
	}
	roles := ChildRoles("v1")
	for _, r := range opts.Roles {
		if roles[r.Name] == nil {
			t.Errorf("no child can be a %s", r.Name)
		}
	}
}
