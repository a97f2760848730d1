// Package servers runs servers of databases for tests: PostgreSQL, MariaDB, and the pooler PgBouncer, as child
// processes that listen on a port of the loopback address and have their files in a temporary directory.
//
//   - [RequirePostgres], [RequireMariaDB] and [RequirePgBouncer] skip a test where the programs are not
//     installed, and say so; with PAWL_SERVERS=required the test fails instead.
//   - [StartPostgres], [StartMariaDB] and [StartPgBouncer] make and start one. Its methods kill it, shut it down and start
//     it again, on the same port and files.
//   - When the process of the tests dies, however, its servers are killed and their files removed.
//
// It is for unix systems. The servers refuse to run as root: then they run as the users whom their packages have made, postgres and mysql. It imports
// the standard library only, so that modules of their own can have it.
package servers
