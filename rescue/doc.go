// Package rescue looks into an engine directory that no engine has open: [Verify] finds what
// is damaged in it, and [Repair] restores what is left of it into a new one. Neither
// changes a byte of it.
//
// Both read the directory through a [store.Inspection], know the tables of pawl.db from
// package index, and replay journals with package runfile. They return a [Report] with a
// [Finding] for each thing that is not as it should be.
package rescue
