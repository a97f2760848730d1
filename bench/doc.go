// Package bench measures the engine, and beside it, in the same run, a bare
// loop of the same SQLite transactions: what the disk allows.
//
//	go test ./bench -run '^$' -bench . -benchtime 5x
//
// BenchmarkChain prints commits/s of both and their ratio; BenchmarkRuns prints
// runs/s with every file written; BenchmarkFanout prints time and memory per
// branch.
package bench
