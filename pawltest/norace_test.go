//go:build !race

package pawltest

const raced = false
