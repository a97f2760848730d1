// Package index knows the tables of pawl.db: their schema, the row of a run, the
// records in the log, the checksums of rows, and what damage of it looks like. It knows a
// connection and no directory: package store decides when something is read and
// written, and package rescue reads what no engine has open.
package index
