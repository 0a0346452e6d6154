package registry

import (
	"encoding/json"
	"strings"

	"github.com/wakecall/wakecall/internal/registry/seal"
)

// MergeTopic applies a JSON merge patch (RFC 7396) to a topic and validates the result as a whole: fields that are
// missing keep their values, null resets to the default, lists are replaced, objects are merged. A mask shown instead
// of a secret is refused. Errors are joined *FieldErrors.
func MergeTopic(t *Topic, patch []byte) (*Topic, error) {
	members, err := objectMembers(patch)
	if err != nil {
		return nil, err
	}
	merged := t.Fields() // without secrets, so those that are missing in the patch are kept
	for _, m := range members {
		if err := refuseMasks(m); err != nil {
			return nil, err
		}
		if merged[m.name], err = mergedValue(merged[m.name], m); err != nil {
			return nil, err
		}
	}
	data, err := json.Marshal(merged)
	if err != nil {
		return nil, err
	}
	return DecodeTopic(t.Name, data)
}

// mergedValue returns the new value of a member. Null is decoded as the default of most fields.
func mergedValue(was json.RawMessage, m member) (json.RawMessage, error) {
	switch m.name {
	case "headers":
		return mergeObject(was, m.value, true)
	case perKeyField:
		return mergeObject(was, m.value, false)
	case "secrets":
		if string(m.value) == "null" {
			return json.RawMessage("[]"), nil // a missing list would keep them
		}
	}
	return json.RawMessage(m.value), nil
}

// mergeObject merges the members of a patch into an object. Null removes a member, or is kept where it resets one of a
// fixed set of fields. What is not an object replaces the whole value.
func mergeObject(was, patch []byte, remove bool) ([]byte, error) {
	members, err := objectMembers(patch)
	if err != nil {
		return patch, nil //nolint:nilerr // not an object: decoding it reports so
	}
	merged := map[string]json.RawMessage{}
	if len(was) > 0 {
		if err := json.Unmarshal(was, &merged); err != nil {
			return nil, err
		}
	}
	for _, m := range members {
		if remove && string(m.value) == "null" {
			delete(merged, m.name)
			continue
		}
		merged[m.name] = json.RawMessage(m.value)
	}
	return json.Marshal(merged)
}

// refuseMasks refuses the masks that are shown instead of secrets. A patch keeps secrets by leaving them out.
func refuseMasks(m member) error {
	var value any
	if err := json.Unmarshal(m.value, &value); err != nil {
		return nil //nolint:nilerr // decoding it reports so
	}
	masked := false
	switch v := value.(type) {
	case string:
		_, query, _ := strings.Cut(v, "?")
		masked = m.name == "callback_url" && seal.IsFingerprint(query)
	case map[string]any:
		for name, text := range v {
			text, _ := text.(string)
			masked = masked || m.name == "headers" && isCredential(name) && seal.IsFingerprint(text)
		}
	case []any:
		for _, text := range v {
			text, _ := text.(string)
			masked = masked || m.name == "secrets" && seal.IsFingerprint(text)
		}
	}
	if masked {
		return OutOfRange(m.name, "field.mask_in_patch")
	}
	return nil
}
