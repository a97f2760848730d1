// Package index knows the tables of pawl.db: their schema, the row of a run, the
// records in the log, the checksums of rows, and how each kind of damage shows. It works on a
// connection and knows no directory: package store decides when a row is read or
// written, and package rescue reads databases that no engine has open.
package index
