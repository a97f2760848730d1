//go:build unix

package servers

import (
	"syscall"
	"testing"
)

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// A server is killed with all its processes, and goes on with the same files and port.
func TestPostgres(t *testing.T) {
	RequirePostgres(t)
	p, err := StartPostgres(map[string]string{"max_connections": "7"})
	check(t, err)
	p.CloseAfter(t)
	children := childrenOf(p.PID())
	if len(children) == 0 {
		t.Fatal("the processes of the server are not found")
	}
	check(t, p.Kill())
	for _, child := range children {
		if lives(child) {
			t.Errorf("process %d lives", child)
		}
	}
	if answersAt(p.Port, false) == nil {
		t.Fatal("a killed server answers")
	}
	check(t, p.Start())
	check(t, answersAt(p.Port, false))
	check(t, p.Signal(syscall.SIGQUIT))
	check(t, p.Start())
	if p.Start() == nil {
		t.Fatal("it starts twice")
	}
	psql, err := PostgresProgram("psql")
	check(t, err)
	s, err := p.StartStandby("second", map[string]string{"max_connections": "7"})
	check(t, err)
	s.CloseAfter(t)
	check(t, p.Kill())
	check(t, s.Promote())
	check(t, p.account.prepare(s.Dir, psql, "-c", "create table t (n int)", s.URL("postgres")))
}

func TestPgBouncer(t *testing.T) {
	RequirePgBouncer(t)
	p, err := StartPostgres(map[string]string{"max_connections": "7"})
	check(t, err)
	p.CloseAfter(t)
	psql, err := PostgresProgram("psql")
	check(t, err)
	b, err := StartPgBouncer(p, "transaction")
	check(t, err)
	b.CloseAfter(t)
	out, err := p.account.command(p.Dir, psql, "-At", "-c", "show max_connections", b.URL("postgres")).CombinedOutput()
	if err != nil || string(out) != "7\n" {
		t.Fatalf("%v: %s", err, out)
	}
}

func TestMariaDB(t *testing.T) {
	RequireMariaDB(t)
	m, err := StartMariaDB()
	check(t, err)
	m.CloseAfter(t)
	check(t, m.Kill())
	check(t, m.Start())
	check(t, m.Shutdown())
	check(t, m.Start())
}
