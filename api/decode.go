package api

import (
	"encoding/json"
	"errors"
	"slices"

	"github.com/pawl-run/pawl/internal/strict"
)

// decodeAct reads an act, which has no more fields than its kind. do is "" if the text says what it
// is; token and node are then there as well. A field that the act does not take is refused even if
// it is null or empty, which the decoded Operation could not tell from one that is missing: so the
// names are read from the text a second time.
func decodeAct(text []byte, do string) (*Operation, error) {
	var a Operation
	if err := decodeObject(text, &a); err != nil {
		return nil, err
	}
	var have map[string]json.RawMessage
	_ = json.Unmarshal(text, &have) // it is an object
	// The path says what is done and to which token, unless the text does: a body that repeats them
	// could contradict its path.
	allowed := []string{"by", "reason"}
	if do == "" {
		allowed = append(allowed, "do")
		do = a.Do
	}
	kind, ok := actKinds[do]
	if !ok {
		return nil, invalidf("there is no act %q", do)
	}
	// a.Do is set only where the text may have it, in a batch or a trial. A path names its token,
	// and targetNamed reads it.
	if allowed = append(allowed, kind.fields...); kind.ofToken && a.Do != "" {
		allowed = append(allowed, "token", "node")
	}
	for name := range have {
		if !slices.Contains(allowed, name) {
			return nil, invalidf("%s takes no field %q", do, name)
		}
	}
	switch {
	// These mistakes would otherwise pass in silence: one of two targets is ignored, or no time
	// passes.
	case kind.ofToken && a.Token != 0 && a.Node != "":
		return nil, invalidf("%s is done to a token: name it or its node, not both", do)
	case slices.Contains(kind.fields, "group") && a.Group == "":
		return nil, invalidf("group must name a group")
	case do == actElapse && a.Elapse == "":
		return nil, invalidf("elapse must say how much time passes")
	}
	// A text whose path names the act has no Do; from here on everybody finds it there.
	a.Do = do
	return &a, nil
}

// decodeObject reads a body. It takes one JSON object and nothing after it, and refuses what
// package strict refuses, such as names that v has no field for: a misspelt option must not be left
// out quietly. The error is an *Error of status 400.
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
