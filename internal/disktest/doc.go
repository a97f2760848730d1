// Package disktest holds the tests that make the disk fail under a living engine:
// processes killed at any system call, full disks, errors of reads, writes and
// syncs, directories that are taken away, descriptors that run out, disks that do
// not answer. There is nothing here but tests.
//
//	go test ./internal/disktest                           # the reference workflow, every call
//	go test ./internal/disktest -timeout 1h -disk.all     # all workflows
//
// docs/reliability.md says what is checked and what was found.
package disktest
