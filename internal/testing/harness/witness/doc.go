// Package witness is what tests that hurt processes and disks have in common: jobs
// and their definitions, whose runs end the same way whatever happens; a ledger of
// what a host was told, kept outside the engine directory; a snapshot of what is
// found in that directory afterwards; and the trial, which checks one against the
// other. It is for tests only.
package witness
