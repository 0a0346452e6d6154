package page

import "testing"

func TestUnescaped(t *testing.T) {
	for text, want := range map[string]string{
		`{"msg":"\u50ac\u6536 \ud83d\ude00"}`: `{"msg":"催收 😀"}`,
		`["\u0022 \\u50ac \u005c \u0007 \n"]`: `["\u0022 \\u50ac \u005c \u0007 \n"]`,
		`{"cut":"\u50ac\u6`:                   `{"cut":"催\u6`,
		`{"half":"\ud83d"} \`:                 `{"half":"\ud83d"} \`,
		`plain \u50ac`:                        `plain \u50ac`,
		"":                                    "",
	} {
		if got := Unescaped(text); got != want {
			t.Errorf("%s became %s, want %s", text, got, want)
		}
	}
}
