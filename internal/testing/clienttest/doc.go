// Package clienttest tests that programs in other languages can use package api: from
// openapi.yaml a client in TypeScript is generated, with openapi-typescript and openapi-fetch,
// whose program starts a run of a real engine, watches it and signals it.
//
//	cp internal/testing/clienttest/testdata/package*.json DIR && npm ci --prefix DIR --ignore-scripts
//	PAWL_CLIENT=DIR go test ./internal/testing/clienttest
//
// Without PAWL_CLIENT the test is skipped; with it, whatever is missing is an error.
package clienttest
