package registry

import (
	"errors"
	"testing"
)

func withJobURLs(patterns ...string) *Topic {
	t := NewTopic("hooks")
	t.CallbackURL, t.JobURLs = "https://shop.example/", patterns
	return &t
}

// TestJobURLPatterns: a "*" is a whole label and none of a registrable domain.
func TestJobURLPatterns(t *testing.T) {
	for pattern, valid := range map[string]bool{
		"https://*.shop.example/hooks/": true, "https://*.shop.example": true, "http://*.svc.cluster.local:8080/": true,
		"https://hooks.shop.example/a": true, "https://*.*.shop.example/": true, "https://a.*.shop.example/": true,
		"http://127.0.0.1:9000/": true, "http://localhost/": true, "https://[::1]:8443/x": true,
		"https://*.shop.co.uk/": true, "https://*.bücher.example/": true, "https://*.user.github.io/": true,

		"https://*.com/": false, "https://*.co.uk/": false, "https://*.github.io/": false, "https://*/": false,
		"https://*.example/": false, "https://*.shop.*/": false, "https://shop.*/": false, "https://*.foo.ck/": false,
		"https://*.0.0.1/": false, "https://*.s3.amazonaws.com/": false,
		"https://sh*p.example/": false, "https://**.shop.example/": false, "https://x*.shop.example/": false,
		"https://*.shop.example/*/x": false, "https://*.shop.example/../x": false,
		"https://*.shop.example/%2e%2e/x": false, "https://*.shop.example/?x=1": false,
		"https://*.shop.example/?": false, "https://*.shop.example/#x": false,
		"https://u@shop.example/": false, "ftp://shop.example/": false, "*.shop.example": false, "": false,
		"https://*.shop.example:99999/": false,
	} {
		err := withJobURLs(pattern).Validate()
		var field *FieldError
		if valid == (err != nil) || err != nil && (!errors.As(err, &field) || field.Field != "job_urls") {
			t.Errorf("%s: %v", pattern, err)
		}
	}
	for _, change := range []func(*Topic){
		func(t *Topic) { t.Delivery = DeliveryPull },
		func(t *Topic) { t.Dialect = "other" },
		func(t *Topic) { t.JobURLs = make([]string, maxJobURLs+1) },
	} {
		topic := withJobURLs("https://shop.example/")
		change(topic)
		if err := topic.validJobURLs(); err == nil {
			t.Errorf("accepted %+v", topic)
		}
	}
}

func TestJobURLs(t *testing.T) {
	for _, c := range []struct {
		pattern   string
		allowed   []string
		forbidden []string
	}{
		{
			"https://*.shop.example/hooks/",
			[]string{
				"https://a.shop.example/hooks/42", "https://A.Shop.Example:443/hooks/42?key=1",
				"https://b.shop.example/hooks/",
				"https://a.shop.example/%68ooks/4%2F2", "https://a.shop.example/hooks/..a",
			},
			[]string{
				"http://a.shop.example/hooks/42", "https://shop.example/hooks/42", "https://a.b.shop.example/hooks/42",
				"https://a.shop.example:8443/hooks/42", "https://u:p@a.shop.example/hooks/42",
				"https://a.shop.example/hooksx", "https://a.shop.example/hooks", "https://a.shop.example/",
				"https://a.shop.example",
				"https://.shop.example/hooks/x", "https://a.shop.example./hooks/42",
				"https://a.shop.example.evil.example/hooks/42",
				"https://evil.example/a.shop.example/hooks/", `https://evil.example\.shop.example/hooks/`,
				"https://a.shop.example/hooks/../admin", "https://a.shop.example/hooks/%2e%2E/admin",
				"https://a.shop.example/hooks/%252e%252e/admin", `https://a.shop.example/hooks/..%5cadmin`,
				"https://a.shop.example/hooks/..;/admin", "https://a.shop.example/hooks/..",
				"https://a.shop.example//hooks/x", "https://a.shop.example/hooks/#x",
				"//a.shop.example/hooks/x", "/hooks/x", "", "https:a.shop.example/hooks/x",
			},
		},
		// * would be the whole domain
		{"https://*.*.amazonaws.com/", nil, []string{"https://bucket.s3.amazonaws.com/x"}},
		{"https://*.amazonaws.com/", nil, []string{"https://s3.amazonaws.com/x"}},
		{
			"http://shop.example:8080/a",
			[]string{
				"http://shop.example:8080/a", "http://shop.example:08080/a/b", "http://SHOP.example:8080/a/",
			},
			[]string{
				"http://shop.example/a", "https://shop.example:8080/a", "http://shop.example:8080/ab",
				"http://shop.example:8080/b",
			},
		},
		{"https://shop.example", []string{"https://shop.example", "https://shop.example/x/y"},
			[]string{"https://www.shop.example/"}},
		{"https://*.bücher.example/", []string{"https://a.xn--bcher-kva.example/", "https://a.BÜCHER.example/"},
			[]string{"https://a.bucher.example/"}},
		{"https://shop.example/", []string{"https://shop.example", "https://shop.example/x"}, nil},
		{"https://[::1]/x", []string{"https://[::1]/x"}, []string{"https://[::2]/x"}},
	} {
		topic := withJobURLs(c.pattern)
		if err := topic.Validate(); err != nil {
			t.Fatal(err)
		}
		for _, u := range c.allowed {
			if _, err := topic.JobURL(u); err != nil {
				t.Errorf("%s, %s: %v", c.pattern, u, err)
			}
		}
		for _, u := range c.forbidden {
			_, err := topic.JobURL(u)
			var field *FieldError
			if !errors.As(err, &field) || field.Field != "url" || !field.OutOfRange {
				t.Errorf("%s, %s: %v", c.pattern, u, err)
			}
		}
	}
}
