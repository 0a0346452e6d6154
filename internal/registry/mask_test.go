package registry

import (
	"testing"
)

func TestMaskURL(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]string{
		"managed:": "managed:", "redis://h:6379/0": "redis://h:6379/0", "redis://:p@h/0": "redis://:***@h/0",
		"redis://u:p@ss@h/0": "redis://u:***@h/0",
		"redis+sentinel://u:p@a,b/m?sentinel_password=x&db=1": "redis+sentinel://u:***@a,b/m?sentinel_password=***&db=1",
	} {
		if got := MaskURL(url); got != want {
			t.Errorf("%s is shown as %s, want %s", url, got, want)
		}
	}
}
