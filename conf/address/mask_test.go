package address

import (
	"testing"
)

func TestMask(t *testing.T) {
	for in, want := range map[string]string{
		"redis://:pw@h:6379/0":                          "redis://:<secret>@h:6379/0",
		"redis://u:p@w/x@h:1":                           "redis://u:<secret>@h:1",
		"redis://pw@h:1":                                "redis://<secret>@h:1",
		"redis://:pw":                                   "redis://:<secret>",
		"redis://h:6379,h2:6380/m":                      "redis://h:6379,h2:6380/m",
		"redis://[::1]:6379":                            "redis://[::1]:6379",
		"unix://u:pw@/x.sock?db=1":                      "unix://u:<secret>@/x.sock?db=1",
		"redis+sentinel://h/m?Sentinel_PASSWORD=x&db=1": "redis+sentinel://h/m?Sentinel_PASSWORD=<secret>&db=1",
		"mysql://u:pw@tcp(h:3306)/w?timeout=1s":         "mysql://u:<secret>@tcp(h:3306)/w?timeout=1s",
		"u:pw@tcp(h:3306)/w":                            "u:<secret>@tcp(h:3306)/w",
		"sqlite:/var/lib/a@b.db":                        "sqlite:/var/lib/a@b.db",
		"":                                              "",
	} {
		if got := Mask(in); got != want {
			t.Errorf("%s is shown as %s, want %s", in, got, want)
		}
	}
}
