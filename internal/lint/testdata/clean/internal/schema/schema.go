// Package schema is clean.
package schema

import _ "github.com/santhosh-tekuri/jsonschema/v6"
