// Package sqltest has the tests of module pawlsql, on servers of databases that the tests start, and on SQLite. It is a module of
// its own, so that the drivers are no dependencies of pawlsql.
package sqltest
