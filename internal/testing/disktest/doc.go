// Package disktest holds the tests that make the disk fail under a living engine:
// processes killed at any system call, full disks, errors of reads, writes and
// syncs, directories that are taken away, descriptors that run out, disks that do
// not answer. There is nothing here but tests.
//
//	PAWL_TEST=gate go test ./internal/testing/disktest                   # the reference workflow, every call
//	PAWL_TEST=release go test ./internal/testing/disktest -timeout 1h    # all workflows
//
// internal/testing/harness/NOTES.md says what is checked and what was found.
package disktest
