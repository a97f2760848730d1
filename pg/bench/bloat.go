package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"

	"github.com/pawl-run/pawl/store"
)

// How large entries are that come and go, how many are kept at least, and after how many more the old ones are dropped.
const (
	bloatEntry = 16 << 10
	bloatKept  = 2000 // 32 MB
	bloatMore  = 2000
)

// measureBloat appends entries for some time, drops the old ones again and again, and prints how large the tables become: by DELETE
// with the settings of the migration, with those of the server, and with a partition of its own for each part that is dropped.
func (m *meter) measureBloat(ctx context.Context, long time.Duration) error {
	const live = (bloatKept + bloatMore) * bloatEntry
	db, err := m.openTables(ctx)
	if err != nil {
		return err
	}
	defer db.Close()
	table, partitions := schema+".entries", schema+".parts"
	reset := `ALTER TABLE ` + table + ` RESET (autovacuum_vacuum_threshold, autovacuum_vacuum_scale_factor, autovacuum_vacuum_cost_delay,
		toast.autovacuum_vacuum_threshold, toast.autovacuum_vacuum_scale_factor, toast.autovacuum_vacuum_cost_delay)`
	for i, way := range []struct{ name, before string }{{"DELETE, settings of the migration", ""}, {"DELETE, settings of the server", `TRUNCATE ` + table + `; ` + reset}} {
		if _, err := m.conn.PgConn().Exec(ctx, way.before).ReadAll(); err != nil {
			return err
		}
		log, err := db.OpenLog(ctx, fmt.Sprint("bloat", i))
		if err != nil {
			return err
		}
		if _, err := log.Take(ctx, func(store.Position) []byte { return []byte("open") }); err != nil {
			return err
		}
		add := func(_ int, data []byte) error { _, err := log.Append(ctx, data); return err }
		drop := func(upTo int) error { return log.Drop(ctx, store.Position{Seq: uint64(upTo)}) } //nolint:gosec // small
		size := `SELECT pg_total_relation_size('` + table + `')`
		if err := m.fillAndDrop(ctx, way.name, long, live, size, add, drop); err != nil {
			return err
		}
	}
	if _, err := m.conn.Exec(ctx, `CREATE TABLE `+partitions+` (number bigint PRIMARY KEY, data bytea NOT NULL) PARTITION BY RANGE (number)`); err != nil {
		return err
	}
	add := func(n int, data []byte) error {
		if n%bloatMore == 0 {
			if _, err := m.conn.Exec(ctx, fmt.Sprintf(`CREATE TABLE %s_%d PARTITION OF %[1]s FOR VALUES FROM (%[2]d) TO (%[3]d)`, partitions, n, n+bloatMore)); err != nil {
				return err
			}
		}
		_, err := m.conn.Exec(ctx, `INSERT INTO `+partitions+` VALUES ($1, $2)`, n, data)
		return err
	}
	drop := func(upTo int) error {
		_, err := m.conn.Exec(ctx, fmt.Sprintf(`DROP TABLE %s_%d`, partitions, upTo/bloatMore*bloatMore))
		return err
	}
	size := `SELECT coalesce(sum(pg_total_relation_size(inhrelid)), 0)::bigint FROM pg_inherits WHERE inhparent = '` + partitions + `'::regclass`
	return m.fillAndDrop(ctx, "partitions", long, live, size, add, drop)
}

// fillAndDrop adds entries and drops old ones for some time, and prints the largest size against what is live at most.
func (m *meter) fillAndDrop(ctx context.Context, name string, long time.Duration, live int64, size string, add func(int, []byte) error, drop func(int) error) error {
	data := make([]byte, bloatEntry)
	_, _ = rand.Read(data) // as entries are: nothing compresses it; it cannot fail
	var most int64
	var dropping time.Duration
	n, began := 0, time.Now()
	for ; time.Since(began) < long; n++ {
		if err := add(n, data); err != nil {
			return err
		}
		if n%bloatMore != bloatMore-1 || n < bloatKept+bloatMore {
			continue
		}
		var now int64
		if err := m.conn.QueryRow(ctx, size).Scan(&now); err != nil {
			return err
		}
		most = max(most, now)
		start := time.Now()
		if err := drop(n - bloatKept - bloatMore + 1); err != nil {
			return err
		}
		dropping += time.Since(start)
	}
	fmt.Printf("%s\t%.0f entries/s\t%.0f MB at most\t%.2f of what is live\t%.1f %% of the time dropping\n",
		name, float64(n)/long.Seconds(), float64(most)/1e6, float64(most)/float64(live), 100*dropping.Seconds()/long.Seconds())
	return nil
}
