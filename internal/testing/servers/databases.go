//go:build unix

package servers

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// postgresFolders are where packages put the programs of PostgreSQL, which PATH lacks.
var postgresFolders = []string{"/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/opt/homebrew/opt/postgresql*/bin"}

// PostgresProgram returns the path of a program of PostgreSQL, such as pg_basebackup.
func PostgresProgram(name string) (string, error) { return findProgram(name, postgresFolders...) }

// RequirePostgres skips a test where PostgreSQL is not installed, or fails it.
func RequirePostgres(t testing.TB) {
	t.Helper()
	_, err := PostgresProgram("initdb")
	if err == nil {
		_, err = accountOf("postgres")
	}
	require(t, "PostgreSQL", err)
}

// The files that servers begin with.
var (
	clusters      = template{name: "postgres-template"}
	installations = template{name: "mariadb-template"}
)

// A Postgres is a PostgreSQL server. Its user is postgres, who has no password.
type Postgres struct{ Server }

// StartPostgres makes a database cluster and starts its server, with settings that postgresql.conf would have.
func StartPostgres(settings map[string]string) (*Postgres, error) {
	a, err := accountOf("postgres")
	if err != nil {
		return nil, err
	}
	initdb, err := PostgresProgram("initdb")
	if err != nil {
		return nil, err
	}
	dir, err := a.directory("postgres")
	if err != nil {
		return nil, err
	}
	err = clusters.copyTo(a, dir, func(data string) []string {
		return []string{initdb, "-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "-N"}
	})
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return startPostgresIn(a, dir, settings)
}

// StartStandby copies the cluster of a primary by pg_basebackup, and starts a standby that streams from it under a name that
// synchronous_standby_names can have. Promote makes it a primary.
func (p *Postgres) StartStandby(name string, settings map[string]string) (*Postgres, error) {
	program, err := PostgresProgram("pg_basebackup")
	if err != nil {
		return nil, err
	}
	dir, err := p.account.directory("postgres")
	if err != nil {
		return nil, err
	}
	from := fmt.Sprintf("host=%s port=%d user=postgres application_name=%s", loopback, p.Port, name)
	if err := p.account.prepare(dir, program, "-D", filepath.Join(dir, "data"), "-d", from, "-R", "-X", "stream", "-c", "fast", "-N"); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return startPostgresIn(p.account, dir, settings)
}

// Promote makes a standby a primary, and returns when it takes writes.
func (p *Postgres) Promote() error {
	program, err := PostgresProgram("pg_ctl")
	if err != nil {
		return err
	}
	return p.account.prepare(p.Dir, program, "promote", "-D", filepath.Join(p.Dir, "data"), "-w", "-t", "60")
}

// Reload sets settings of a running server, as far as they need no new start.
func (p *Postgres) Reload(settings map[string]string) error {
	if err := p.writeSettings(settings); err != nil {
		return err
	}
	return p.process.Process.Signal(syscall.SIGHUP)
}

// URL returns the address of a database for clients.
func (p *Postgres) URL(database string) string {
	return fmt.Sprintf("postgres://postgres@%s:%d/%s?sslmode=disable", loopback, p.Port, database)
}

func startPostgresIn(a *account, dir string, settings map[string]string) (*Postgres, error) {
	program, err := PostgresProgram("postgres")
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	port, err := FreePort()
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	p := &Postgres{Server{
		Port: port, Dir: dir, name: "PostgreSQL", account: a, shutdown: syscall.SIGINT,
		run: []string{program, "-D", filepath.Join(dir, "data"), "-p", strconv.Itoa(port), "-h", loopback, "-k", ""},
	}}
	p.ready = p.takesConnections
	if err := p.writeSettings(settings); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	if err := p.Start(); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}

// writeSettings replaces the settings of the server.
func (p *Postgres) writeSettings(settings map[string]string) error {
	// Shared memory in files of its own: that of the system would stay when the server is killed.
	all := map[string]string{"dynamic_shared_memory_type": "mmap", "shared_buffers": "32MB", "max_wal_size": "256MB", "wal_level": "replica", "max_wal_senders": "8"}
	maps.Copy(all, settings)
	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(all)) {
		fmt.Fprintf(&text, "%s = '%s'\n", name, strings.ReplaceAll(all[name], "'", "''"))
	}
	path := filepath.Join(p.Dir, "data", "postgresql.auto.conf")
	old, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	// pg_basebackup has written there whom a standby follows.
	for line := range strings.Lines(string(old)) {
		if strings.HasPrefix(line, "primary_conninfo") {
			text.WriteString(line)
		}
	}
	return os.WriteFile(path, []byte(text.String()), 0o600)
}

// takesConnections looks into the file in which the server says how far it is.
func (p *Postgres) takesConnections() error {
	data, err := os.ReadFile(filepath.Join(p.Dir, "data", "postmaster.pid"))
	if err != nil {
		return err
	}
	lines := bytes.Split(data, []byte("\n"))
	if len(lines) < 8 || string(lines[0]) != strconv.Itoa(p.PID()) {
		return errors.New("its file is of an earlier life")
	}
	if state := string(bytes.TrimSpace(lines[7])); state != "ready" && state != "standby" {
		return fmt.Errorf("it is %s", state)
	}
	return nil
}

// RequireMariaDB skips a test where MariaDB is not installed, or fails it.
func RequireMariaDB(t testing.TB) {
	t.Helper()
	_, err := findProgram("mariadbd", "/usr/sbin", "/usr/libexec")
	if err == nil {
		_, err = findProgram("mariadb-install-db")
	}
	if err == nil {
		_, err = accountOf("mysql")
	}
	require(t, "MariaDB", err)
}

// A MariaDB is a MariaDB server. Its user is root, who has no password.
type MariaDB struct{ Server }

// StartMariaDB makes a database, named test, and starts its server.
func StartMariaDB(settings ...string) (*MariaDB, error) {
	a, err := accountOf("mysql")
	if err != nil {
		return nil, err
	}
	program, err := findProgram("mariadbd", "/usr/sbin", "/usr/libexec")
	if err != nil {
		return nil, err
	}
	install, err := findProgram("mariadb-install-db")
	if err != nil {
		return nil, err
	}
	dir, err := a.directory("mariadb")
	if err != nil {
		return nil, err
	}
	data := filepath.Join(dir, "data")
	err = installations.copyTo(a, dir, func(data string) []string {
		return []string{install, "--no-defaults", "--datadir=" + data, "--auth-root-authentication-method=normal"}
	})
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	port, err := FreePort()
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	m := &MariaDB{Server{
		Port: port, Dir: dir, name: "MariaDB", account: a, shutdown: syscall.SIGTERM,
		run: append([]string{
			program, "--no-defaults", "--datadir=" + data, "--port=" + strconv.Itoa(port), "--bind-address=" + loopback,
			"--socket=" + filepath.Join(dir, "s"), "--innodb-buffer-pool-size=32M", "--skip-log-bin", "--skip-name-resolve",
		}, settings...),
		ready: func() error { return answersAt(port, true) },
	}}
	if err := m.Start(); err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return m, nil
}

// DSN returns the address of a database for the driver of Go.
func (m *MariaDB) DSN(database string) string {
	return fmt.Sprintf("root@tcp(%s:%d)/%s", loopback, m.Port, database)
}

// RequirePgBouncer skips a test where PgBouncer or PostgreSQL is not installed, or fails it.
func RequirePgBouncer(t testing.TB) {
	t.Helper()
	RequirePostgres(t)
	_, err := findProgram("pgbouncer", "/usr/sbin")
	require(t, "PgBouncer", err)
}

// A PgBouncer is a pooler before all databases of a PostgreSQL server.
type PgBouncer struct{ Server }

// StartPgBouncer starts a pooler whose mode is session, transaction or statement, with further lines of its section pgbouncer.
func StartPgBouncer(before *Postgres, mode string, settings ...string) (*PgBouncer, error) {
	program, err := findProgram("pgbouncer", "/usr/sbin")
	if err != nil {
		return nil, err
	}
	a := before.account
	dir, err := a.directory("pgbouncer")
	if err != nil {
		return nil, err
	}
	port, err := FreePort()
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	text := fmt.Sprintf("[databases]\n* = host=%s port=%d user=postgres\n[pgbouncer]\nlisten_addr = %s\nlisten_port = %d\nunix_socket_dir =\nauth_type = any\npool_mode = %s\n%s\n",
		loopback, before.Port, loopback, port, mode, strings.Join(settings, "\n"))
	path := filepath.Join(dir, "ini")
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil { //nolint:gosec // another account reads it
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	b := &PgBouncer{Server{
		Port: port, Dir: dir, name: "PgBouncer", account: a, shutdown: syscall.SIGTERM, run: []string{program, path},
		ready: func() error { return answersAt(port, false) },
	}}
	if err := b.Start(); err != nil {
		return nil, errors.Join(err, b.Close())
	}
	return b, nil
}

// URL returns the address of a database for clients.
func (b *PgBouncer) URL(database string) string {
	return fmt.Sprintf("postgres://postgres@%s:%d/%s?sslmode=disable", loopback, b.Port, database)
}
