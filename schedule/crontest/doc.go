// Package crontest holds the instants of package schedule against those of two
// libraries of cron, netresearch/go-cron and adhocore/gronx, and names where the
// three differ. It is a module of its own, so that pawl does not depend on them.
// There is nothing here but tests.
package crontest
