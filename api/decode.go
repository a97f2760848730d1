package api

import (
	"encoding/json"
	"errors"
	"slices"

	"github.com/pawl-run/pawl/internal/strict"
)

// decodeAct reads an act, which has no more fields than its kind. do is "" if the text says what
// it is; token and node are then there as well.
func decodeAct(text []byte, do string) (*Operation, error) {
	var a Operation
	if err := decodeObject(text, &a); err != nil {
		return nil, err
	}
	var have map[string]json.RawMessage
	_ = json.Unmarshal(text, &have) // it is an object
	allowed := []string{"by", "reason"}
	if do == "" {
		allowed = append(allowed, "do")
		do = a.Do
	}
	kind, ok := actKinds[do]
	if !ok {
		return nil, invalidf("there is no act %q", do)
	}
	if allowed = append(allowed, kind.fields...); kind.ofToken && a.Do != "" {
		allowed = append(allowed, "token", "node")
	}
	for name := range have {
		if !slices.Contains(allowed, name) {
			return nil, invalidf("%s takes no field %q", do, name)
		}
	}
	switch {
	case kind.ofToken && a.Token != 0 && a.Node != "":
		return nil, invalidf("%s is done to a token: name it or its node, not both", do)
	case slices.Contains(kind.fields, "group") && a.Group == "":
		return nil, invalidf("group must name a group")
	case do == actElapse && a.Elapse == "":
		return nil, invalidf("elapse must say how much time passes")
	}
	a.Do = do
	return &a, nil
}

// decodeObject reads a body.
func decodeObject(text []byte, v any) error {
	err := strict.DecodeObject(text, v)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, strict.ErrEmpty):
		return invalidf("the body is empty: send one JSON object")
	}
	return invalidf("the body is not the JSON object that this path takes: %v", err)
}
