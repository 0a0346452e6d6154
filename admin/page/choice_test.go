package page_test

import (
	"strings"
	"testing"

	"github.com/wakecall/wakecall/admin/admintest"
)

func TestLanguageAndTheme(t *testing.T) {
	t.Parallel()
	s := admintest.Open(t, nil).As("look")
	s.Post("/language", "choice", "zh-Hans", "back", "/topics")
	s.Post("/theme", "choice", "dark", "back", "/topics")
	if _, body := s.Get("/topics"); !strings.Contains(body, `lang="zh-Hans"`) ||
		!strings.Contains(body, `data-bs-theme="dark"`) {
		t.Errorf("got\n%.400s", body)
	}
}
