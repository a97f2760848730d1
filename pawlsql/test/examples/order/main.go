// Command order is a shop that keeps its orders in a database of its own (here SQLite) and starts the run of each order in the
// transaction that inserts it. The program starts the shop as a process that kills itself: before the commit of an order, right after
// it, and while a card is charged. In the end each order that committed has its run, and was charged once.
//
//	go run ./examples/order
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
)

// The shop is a child process: the environment says in which directory, which order it takes, and where it dies.
const (
	shopDir   = "SHOP_DIR"
	shopOrder = "SHOP_ORDER"
	shopDies  = "SHOP_DIES"
)

func main() {
	if err := liveOrRun(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// liveOrRun is the shop where the environment says so, or the program that starts it.
func liveOrRun() error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if dir := os.Getenv(shopDir); dir != "" {
		return runShop(ctx, dir, os.Getenv(shopOrder), os.Getenv(shopDies))
	}
	return run(ctx, os.Stdout)
}

// run lets the shop live four times.
func run(ctx context.Context, stdout io.Writer) error {
	dir, err := os.MkdirTemp("", "order")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // it is temporary
	for _, life := range []struct{ order, dies string }{{"order-1", "before the commit"}, {"order-2", "after the commit"}, {"order-3", "while the card is charged"}} {
		if err := spawnShop(ctx, dir, life.order, life.dies); err == nil {
			return fmt.Errorf("the shop has not died %s", life.dies)
		}
		fmt.Fprintf(stdout, "%s: the shop was killed %s\n", life.order, life.dies)
	}
	if err := spawnShop(ctx, dir, "", ""); err != nil {
		return err
	}
	return reportOrders(ctx, filepath.Join(dir, "shop.db"), stdout)
}

func spawnShop(ctx context.Context, dir, order, dies string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, self)
	cmd.Env = append(os.Environ(), shopDir+"="+dir, shopOrder+"="+order, shopDies+"="+dies)
	cmd.Stderr = os.Stderr
	return cmd.Run()
}

// reportOrders prints what the database of the shop has.
func reportOrders(ctx context.Context, path string, stdout io.Writer) error {
	db, err := openDatabase(ctx, path)
	if err != nil {
		return err
	}
	defer db.Close() //nolint:errcheck // nothing is left to write
	rows, err := db.QueryContext(ctx, "SELECT id, item, (SELECT COUNT(*) FROM charges c WHERE c.id = o.id) FROM orders o ORDER BY id")
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var id, item string
		var charges int
		if err := rows.Scan(&id, &item, &charges); err != nil {
			return err
		}
		fmt.Fprintf(stdout, "%s: %s, charged %d times\n", id, item, charges)
	}
	return rows.Err()
}
