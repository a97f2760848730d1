// Package zerotest calls every exported function and method of the packages of the
// API with nil, zero and odd values: each returns an error or a result and
// none panics. Only a nil context may panic, as it does in the standard library. There is nothing here but tests.
//
//	PAWL_TEST=gate go test ./internal/testing/zerotest                   # a sample of arguments
//	PAWL_TEST=release go test ./internal/testing/zerotest -timeout 1h    # many of them
//	go test ./internal/testing/zerotest -zero.rewrite                    # list what is new
package zerotest
