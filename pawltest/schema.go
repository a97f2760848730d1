package pawltest

import _ "embed" // the schema

// Schema is the JSON Schema, draft 2020-12, of one document of a scenario file.
// Definitions in it are described by their own schema.
//
//go:embed scenario.schema.json
var Schema []byte
