package api

import (
	"errors"

	"github.com/pawl-run/pawl/internal/strict"
)

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
